#include <algorithm>
#include <cmath>
#include <numbers>

#include "graph/reference.h"

namespace pastkv::graph::reference {
namespace {

// Calls body(row) for each row of the last axis.
template <typename Body>
void for_each_row(Tensor& x, const Body& body) {
  const std::size_t n = static_cast<std::size_t>(x.shape.back());
  for (std::size_t start = 0; start < x.data.size(); start += n) body(std::span(x.data).subspan(start, n));
}

template <typename Function>
Tensor map(const Tensor& x, const Function& function) {
  Tensor y = x;
  for (float& value : y.data) value = static_cast<float>(function(static_cast<double>(value)));
  return y;
}

// Turns each pair of one head by the angle position * frequency: (x, y) -> (x cos - y sin, y cos + x sin). The angle is
// rounded to fp32, as those who train models round it: at position 100,000 that is visible.
void rotate(std::span<float> head, float position, const RopeTable& table, bool interleaved) {
  const std::size_t pairs = table.inverse_frequencies.size();
  for (std::size_t i = 0; i < pairs; ++i) {
    const auto angle = static_cast<double>(position * table.inverse_frequencies[i]);
    const double cosine = std::cos(angle) * static_cast<double>(table.scale);
    const double sine = std::sin(angle) * static_cast<double>(table.scale);
    float& first = head[interleaved ? 2 * i : i];
    float& second = head[interleaved ? 2 * i + 1 : i + pairs];
    const double x = first;
    const double y = second;
    first = static_cast<float>(x * cosine - y * sine);
    second = static_cast<float>(y * cosine + x * sine);
  }
}

double gelu_tanh(double x) {
  const double inner = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1.0 + std::tanh(inner));
}

double masked(double score, float mask, bool boolean) {
  if (boolean) return mask != 0.0F ? score : static_cast<double>(kMaskedScore);
  return score + static_cast<double>(mask < kLowestMask ? kLowestMask : mask);
}

// Scores to weights that sum to 1.
void softmax_in_place(std::span<double> scores) {
  const double most = *std::ranges::max_element(scores);
  double sum = 0.0;
  for (double& score : scores) sum += score = std::exp(score - most);
  for (double& score : scores) score /= sum;
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor* bias) {
  const std::size_t out = extent(weight, 0);
  const std::size_t in = extent(weight, 1);
  const std::size_t rows = x.data.size() / in;
  Extents shape = x.shape;
  shape.back() = weight.shape[0];
  Tensor y = zeros(std::move(shape));
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t o = 0; o < out; ++o) {
      double sum = bias == nullptr ? 0.0 : static_cast<double>(bias->data[o]);
      for (std::size_t i = 0; i < in; ++i) {
        sum += static_cast<double>(x.data[row * in + i]) * static_cast<double>(weight.data[o * in + i]);
      }
      y.data[row * out + o] = static_cast<float>(sum);
    }
  }
  return y;
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, const NormAttributes& norm) {
  Tensor y = x;
  for_each_row(y, [&](std::span<float> row) {
    double squares = 0.0;
    for (const float value : row) squares += static_cast<double>(value) * static_cast<double>(value);
    const double rms = std::sqrt(squares / static_cast<double>(row.size()) + static_cast<double>(norm.epsilon));
    for (std::size_t i = 0; i < row.size(); ++i) {
      const double gain = static_cast<double>(weight.data[i]) + static_cast<double>(norm.weight_offset);
      row[i] = static_cast<float>(static_cast<double>(row[i]) / rms * gain);
    }
  });
  return y;
}

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor* bias, const NormAttributes& norm) {
  Tensor y = x;
  for_each_row(y, [&](std::span<float> row) {
    const auto n = static_cast<double>(row.size());
    double mean = 0.0;
    for (const float value : row) mean += static_cast<double>(value) / n;
    double variance = 0.0;
    for (const float value : row) variance += std::pow(static_cast<double>(value) - mean, 2.0) / n;
    const double deviation = std::sqrt(variance + static_cast<double>(norm.epsilon));
    for (std::size_t i = 0; i < row.size(); ++i) {
      const double gain = static_cast<double>(weight.data[i]) + static_cast<double>(norm.weight_offset);
      const double shift = bias == nullptr ? 0.0 : static_cast<double>(bias->data[i]);
      row[i] = static_cast<float>((static_cast<double>(row[i]) - mean) / deviation * gain + shift);
    }
  });
  return y;
}

Tensor rope(const Tensor& x, const Tensor& positions, const RopeAttributes& rope, std::int64_t total_length) {
  const RopeTable table = rope.frequencies.at(total_length);
  const std::size_t heads = extent(x, 2);
  Tensor y = x;
  std::size_t row = 0;  // over batch, query and heads
  for_each_row(y, [&](std::span<float> head) { rotate(head, positions.data[row++ / heads], table, rope.interleaved); });
  return y;
}

Tensor state_update(const Tensor& past, const Tensor& x) {
  const Tensor added = transpose(x, {0, 2, 1, 3});  // [batch, heads, query, head_dim]
  const std::vector<const Tensor*> parts = {&past, &added};
  return concat(parts, 2);
}

Tensor attention(const Tensor& q, const Tensor& keys, const Tensor& values, const AttentionAttributes& attributes,
                 const AttentionMask& given) {
  const std::size_t batch = extent(q, 0);
  const std::size_t query = extent(q, 1);
  const std::size_t heads = extent(q, 2);
  const std::size_t head_dim = extent(q, 3);
  const std::size_t kv_heads = extent(keys, 1);
  const std::size_t total = extent(keys, 2);
  const std::size_t value_dim = extent(values, 3);
  const std::size_t past = total - query;
  const std::size_t group = heads / kv_heads;  // query heads that share one KV head
  const auto window = static_cast<std::size_t>(attributes.window);
  const double cap = attributes.softcap;
  Tensor mask;  // [batch, heads, query, total]
  if (given.numbers != nullptr) mask = expand(*given.numbers, {q.shape[0], q.shape[2], q.shape[1], keys.shape[2]});

  Tensor y = zeros({q.shape[0], q.shape[1], q.shape[2], values.shape[3]});
  for (std::size_t b = 0; b < batch; ++b) {
    for (std::size_t i = 0; i < query; ++i) {
      for (std::size_t h = 0; h < heads; ++h) {
        const float* const head = &q.data[((b * query + i) * heads + h) * head_dim];
        const std::size_t kv_row = (b * kv_heads + h / group) * total;  // row of position 0 in keys and values

        // This query stands at past + i and sees [first, past + i].
        const std::size_t end = past + i + 1;
        const std::size_t first = window != 0 && end > window ? end - window : 0;

        std::vector<double> scores(total, static_cast<double>(kMaskedScore));
        for (std::size_t j = first; j < end; ++j) {
          const float* const key = &keys.data[(kv_row + j) * head_dim];
          double score = 0.0;
          for (std::size_t d = 0; d < head_dim; ++d)
            score += static_cast<double>(head[d]) * static_cast<double>(key[d]);
          score *= static_cast<double>(attributes.scale);
          scores[j] = cap == 0.0 ? score : cap * std::tanh(score / cap);
          if (given.numbers == nullptr) continue;
          scores[j] = masked(scores[j], mask.data[((b * heads + h) * query + i) * total + j], given.boolean);
        }

        softmax_in_place(scores);

        float* const out = &y.data[((b * query + i) * heads + h) * value_dim];
        for (std::size_t d = 0; d < value_dim; ++d) {
          double sum = 0.0;
          for (std::size_t j = 0; j < total; ++j) {
            sum += scores[j] * static_cast<double>(values.data[(kv_row + j) * value_dim + d]);
          }
          out[d] = static_cast<float>(sum);
        }
      }
    }
  }
  return y;
}

Tensor activation(const Tensor& x, Activation kind) {
  switch (kind) {
    case Activation::silu:
      return map(x, [](double v) { return v / (1.0 + std::exp(-v)); });
    case Activation::gelu_tanh:
      return map(x, gelu_tanh);
    case Activation::gelu_erf:
      return map(x, [](double v) { return 0.5 * v * (1.0 + std::erf(v / std::numbers::sqrt2)); });
    case Activation::relu:
      return map(x, [](double v) { return v > 0.0 ? v : 0.0; });
  }
  __builtin_unreachable();
}

Tensor softcap(const Tensor& x, float cap) {
  const double limit = cap;
  return map(x, [limit](double v) { return limit * std::tanh(v / limit); });
}

Tensor scale(const Tensor& x, float factor) {
  return map(x, [factor](double v) { return v * static_cast<double>(factor); });
}

}  // namespace pastkv::graph::reference
