#include <functional>

#include "kernel_fixture.h"

namespace pastkv::engine {
namespace {

using graph::Activation;
using tensor::DType;

double exact(Activation kind, double x) {
  switch (kind) {
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::gelu_erf:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::relu:
      return x > 0 ? x : 0;
  }
  return 0;
}

const std::vector<Activation> kActivations = {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf,
                                              Activation::relu};

class ElementwiseTest : public KernelTest {};

TEST_P(ElementwiseTest, ActivationsAreExactOverAWideRange) {
  std::vector<float> x;
  for (float value = -120.0F; value < 120.0F; value += 0.0137F) x.push_back(value);
  for (const float large : {1e-30F, 1e-8F, 1e-4F, 1e4F, 1e18F, 3e38F}) x.insert(x.end(), {large, -large});
  x.insert(x.end(), {0.0F, -0.0F});
  for (const Activation kind : kActivations) {
    std::vector<float> y(x.size());
    set().activation(kind, x.data(), static_cast<std::int64_t>(x.size()), y.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double expected = exact(kind, static_cast<double>(x[i]));
      ASSERT_NEAR(y[i], expected, 1e-6 * std::max(1.0, std::fabs(expected)))
          << static_cast<int>(kind) << " of " << x[i];
    }
  }
}

TEST_P(ElementwiseTest, ActivationsOfInfinityAndNaN) {
  const std::vector<float> x = {HUGE_VALF, std::nanf(""), -std::nanf("")};
  for (const Activation kind : kActivations) {
    std::vector<float> y(x.size());
    set().activation(kind, x.data(), 3, y.data());
    EXPECT_EQ(y[0], HUGE_VALF) << static_cast<int>(kind);
    EXPECT_TRUE(std::isnan(y[1]) && std::isnan(y[2])) << static_cast<int>(kind);
  }
}

TEST_P(ElementwiseTest, GatedMultipliesTheActivation) {
  std::mt19937 random(1);
  for (const Activation kind : kActivations) {
    for (const std::size_t n : {1U, 8U, 21U, 1536U}) {
      const std::vector<float> gate = random_floats(n, random, 3.0F), up = random_floats(n, random);
      std::vector<float> y = gate;  // in place
      set().gated(kind, y.data(), up.data(), static_cast<std::int64_t>(n), y.data());
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_NEAR(y[i], exact(kind, static_cast<double>(gate[i])) * static_cast<double>(up[i]), 1e-5);
      }
    }
  }
}

TEST_P(ElementwiseTest, NormsOfEverySize) {
  std::mt19937 random(2);
  for (const std::size_t n : {1U, 3U, 8U, 17U, 64U, 576U, 2047U}) {
    const std::vector<float> x = random_floats(n, random, 5.0F), w = random_floats(n, random),
                             b = random_floats(n, random);
    double squares = 0, mean = 0, variance = 0;
    for (const float v : x) squares += static_cast<double>(v) * static_cast<double>(v);
    for (const float v : x) mean += static_cast<double>(v) / static_cast<double>(n);
    for (const float v : x) variance += (static_cast<double>(v) - mean) * (static_cast<double>(v) - mean);
    const auto count = static_cast<std::int64_t>(n);
    std::vector<float> rms = x, layer = x, plain = x;  // in place
    set().rms_norm(rms.data(), w.data(), 1.0F, 1e-6F, count, rms.data());
    set().layer_norm(layer.data(), w.data(), b.data(), 1e-5F, count, layer.data());
    set().layer_norm(plain.data(), nullptr, nullptr, 1e-5F, count, plain.data());
    for (std::size_t i = 0; i < n; ++i) {
      const auto value = static_cast<double>(x[i]);
      const double root = std::sqrt(squares / static_cast<double>(n) + 1e-6);
      ASSERT_NEAR(rms[i], value / root * (static_cast<double>(w[i]) + 1), 1e-5);
      const double centred = (value - mean) / std::sqrt(variance / static_cast<double>(n) + 1e-5);
      ASSERT_NEAR(layer[i], centred * static_cast<double>(w[i]) + static_cast<double>(b[i]), 2e-5);
      ASSERT_NEAR(plain[i], centred, 2e-5);
    }
  }
}

TEST_P(ElementwiseTest, SumsProductsAndCaps) {
  std::mt19937 random(3);
  for (const std::size_t n : {1U, 5U, 16U, 100U}) {
    const std::vector<float> a = random_floats(n, random, 4.0F), b = random_floats(n, random);
    const auto count = static_cast<std::int64_t>(n);
    std::vector<float> sum(n), product(n), scaled(n), capped = a;
    set().add(a.data(), b.data(), count, sum.data());
    set().multiply(a.data(), b.data(), count, product.data());
    set().scale(a.data(), 0.3F, count, scaled.data());
    set().softcap(capped.data(), 5.0F, count, capped.data());
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_EQ(sum[i], a[i] + b[i]);
      EXPECT_EQ(product[i], a[i] * b[i]);
      EXPECT_EQ(scaled[i], a[i] * 0.3F);
      EXPECT_NEAR(capped[i], 5 * std::tanh(static_cast<double>(a[i]) / 5), 5e-6);
    }
  }
}

TEST_P(ElementwiseTest, SoftcapKeepsItsRelativePrecisionNearZero) {
  for (float x = 1e-6F; x < 400.0F; x *= 1.07F) {
    float y = 0;
    set().softcap(&x, 30.0F, 1, &y);
    ASSERT_NEAR(y / (30 * std::tanh(static_cast<double>(x) / 30)), 1.0, 1.5e-6) << x;
  }
}

TEST_P(ElementwiseTest, RopeRotatesBothSpellings) {
  std::mt19937 random(4);
  for (const std::int64_t rotary : {2, 6, 32, 64, 72}) {
    const std::int64_t head_dim = 80, half = rotary / 2;
    const std::vector<float> x = random_floats(80, random), angle = random_floats(40, random);
    std::vector<float> cosine(40), sine(40);
    for (std::size_t i = 0; i < 40; ++i) {
      cosine[i] = std::cos(angle[i]);
      sine[i] = std::sin(angle[i]);
    }
    for (const bool interleaved : {false, true}) {
      std::vector<float> y(80), in_place = x;
      set().rope(x.data(), cosine.data(), sine.data(), rotary, head_dim, interleaved, y.data());
      set().rope(in_place.data(), cosine.data(), sine.data(), rotary, head_dim, interleaved, in_place.data());
      EXPECT_EQ(in_place, y);
      for (std::int64_t i = 0; i < half; ++i) {
        const auto first = static_cast<std::size_t>(interleaved ? 2 * i : i);
        const auto second = static_cast<std::size_t>(interleaved ? 2 * i + 1 : i + half);
        const auto pair = static_cast<std::size_t>(i);
        EXPECT_NEAR(y[first], x[first] * cosine[pair] - x[second] * sine[pair], 1e-6);
        EXPECT_NEAR(y[second], x[second] * cosine[pair] + x[first] * sine[pair], 1e-6);
      }
      for (std::int64_t i = rotary; i < head_dim; ++i) {
        EXPECT_EQ(y[static_cast<std::size_t>(i)], x[static_cast<std::size_t>(i)]);
      }
    }
  }
}

TEST_P(ElementwiseTest, EncodesCacheRows) {
  std::mt19937 random(5);
  std::vector<float> x = random_floats(96, random);
  const std::vector<float> special = {0.0F,     -0.0F,    1e-7F, 6e-8F,  -5.9e-8F,  1e-40F,     65504.0F,
                                      65519.0F, 65520.0F, 1e30F, -1e30F, HUGE_VALF, -HUGE_VALF, std::nanf("")};
  std::copy(special.begin(), special.end(), x.begin() + 32);
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    for (const std::size_t n : {1U, 3U, 8U, 31U, 96U}) {
      const std::size_t bytes = tensor::byte_size(type, n).value();
      std::vector<std::byte> got(bytes), expected(bytes);
      std::vector<float> got_values(n), expected_values(n);
      set().encode_cache(type, x.data(), static_cast<std::int64_t>(n), got.data());
      tensor::encode_row(type, {x.data(), n}, expected);
      tensor::decode_row(type, got, got_values);
      tensor::decode_row(type, expected, expected_values);
      for (std::size_t i = 0; i < n; ++i) {
        if (std::isnan(x[i])) {
          EXPECT_TRUE(std::isnan(got_values[i]));
        } else {
          EXPECT_EQ(got_values[i], expected_values[i]) << tensor::name(type) << " of " << x[i];
        }
      }
    }
  }
  for (const float deviation : {0.0F, 1e-36F, 1e-3F, 1.0F, 1000.0F}) {
    const std::vector<float> row = random_floats(128, random, deviation);
    std::vector<std::byte> got(tensor::byte_size(DType::q8_0, 128).value());
    std::vector<float> decoded(128);
    set().encode_cache(DType::q8_0, row.data(), 128, got.data());
    tensor::decode_row(DType::q8_0, got, decoded);
    for (std::size_t i = 0; i < 128; ++i) EXPECT_NEAR(decoded[i], row[i], 0.02F * deviation + 1e-7F);
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, ElementwiseTest, ::testing::ValuesIn(runnable_sets()), set_name);

}  // namespace
}  // namespace pastkv::engine
