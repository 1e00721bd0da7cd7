#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

#include "kernel_fixture.h"

namespace pastkv::engine {
namespace {

using tensor::DType;

const std::vector<DType> kWeightTypes = {DType::f32,  DType::f16,  DType::bf16, DType::q4_0,  DType::q4_1,
                                         DType::q5_0, DType::q5_1, DType::q8_0, DType::q2_k,  DType::q3_k,
                                         DType::q4_k, DType::q5_k, DType::q6_k, DType::iq4_nl};

// Where a block keeps its f16 scales.
std::vector<std::size_t> scale_offsets(DType type) {
  switch (type) {
    case DType::q4_1:
    case DType::q5_1:
    case DType::q4_k:
    case DType::q5_k:
      return {0, 2};
    case DType::q2_k:
      return {80, 82};
    case DType::q3_k:
      return {108};
    case DType::q6_k:
      return {208};
    default:
      return {0};
  }
}

bool is_quantized(DType type) {
  return tensor::traits(type).block_elements > 1;
}

using ScaleMaker = std::function<float(std::mt19937&)>;

float ordinary_scale(std::mt19937& random) {
  return std::uniform_real_distribution<float>(-0.02F, 0.02F)(random);
}

// Rows of weights whose quants are any bits, or all `fill` when that is not negative.
std::vector<std::byte> random_weights(DType type, std::int64_t rows, std::int64_t depth, std::mt19937& random,
                                      const ScaleMaker& scale = ordinary_scale, int fill = -1) {
  const std::size_t row_bytes = tensor::byte_size(type, static_cast<std::uint64_t>(depth)).value();
  std::vector<std::byte> result(static_cast<std::size_t>(rows) * row_bytes);
  if (!is_quantized(type)) {
    const std::vector<float> values = random_floats(static_cast<std::size_t>(rows * depth), random, 0.05F);
    for (std::int64_t r = 0; r < rows; ++r) {
      tensor::encode_row(type, {values.data() + r * depth, static_cast<std::size_t>(depth)},
                         {result.data() + static_cast<std::size_t>(r) * row_bytes, row_bytes});
    }
    return result;
  }
  for (std::byte& byte : result)
    byte = static_cast<std::byte>(fill < 0 ? random() & 0xFFU : static_cast<unsigned>(fill));
  const auto block_bytes = static_cast<std::size_t>(tensor::traits(type).block_bytes);
  for (std::size_t block = 0; block < result.size(); block += block_bytes) {
    for (const std::size_t offset : scale_offsets(type)) {
      const std::uint16_t half = tensor::f32_to_f16(scale(random));
      std::memcpy(result.data() + block + offset, &half, 2);
    }
  }
  return result;
}

// The activations that the int8 kernels see.
std::vector<double> rounded_activations(const float* x, std::int64_t depth) {
  std::vector<double> result(static_cast<std::size_t>(depth));
  for (std::int64_t begin = 0; begin < depth; begin += 32) {
    float limit = 0;
    for (std::int64_t i = begin; i < begin + 32; ++i) limit = std::max(limit, std::fabs(x[i]));
    for (std::int64_t i = begin; i < begin + 32; ++i) {
      const float q = limit > 1e-30F ? std::nearbyint(x[i] * (127.0F / limit)) : 0.0F;
      result[static_cast<std::size_t>(i)] = static_cast<double>(limit / 127.0F) * static_cast<double>(q);
    }
  }
  return result;
}

struct Problem {
  DType type;
  std::int64_t rows, depth, columns;
  std::vector<std::byte> weights;
  std::vector<float> x, bias;

  Problem(DType type_, std::int64_t rows_, std::int64_t depth_, std::int64_t columns_, std::mt19937& random)
      : type(type_),
        rows(rows_),
        depth(depth_),
        columns(columns_),
        weights(random_weights(type_, rows_, depth_, random)),
        x(random_floats(static_cast<std::size_t>(columns_ * (depth_ + 3)), random)),
        bias(random_floats(static_cast<std::size_t>(rows_), random)) {}

  std::int64_t x_stride() const { return depth + 3; }
  std::int64_t y_stride() const { return rows + 5; }
  std::int64_t row_bytes() const {
    return static_cast<std::int64_t>(tensor::byte_size(type, static_cast<std::uint64_t>(depth)).value());
  }
};

struct Options {
  bool bias = false;
  bool accumulate = false;
  std::vector<std::int64_t> row_cuts = {};     // between 0 and rows
  std::vector<std::int64_t> column_cuts = {};  // of prepare()
  std::size_t misalignment = 0;                // of the weights
  double least_weight = 0;                     // that tolerances are relative to, where offsets cancel out
};

constexpr float kUntouched = 17.25F;

std::vector<float> run(const KernelSet& set, const Problem& problem, const Options& options) {
  AlignedBytes prepared(set.prepared_bytes(set.preparation(problem.type), problem.columns, problem.depth));
  std::vector<std::int64_t> cuts = options.column_cuts;
  cuts.insert(cuts.begin(), 0);
  cuts.push_back(problem.columns);
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    set.prepare(set.preparation(problem.type), problem.x.data(), problem.x_stride(), problem.columns, cuts[i],
                cuts[i + 1], problem.depth, prepared.data());
  }
  AlignedBytes weights(problem.weights.size() + options.misalignment);
  std::memcpy(weights.data() + options.misalignment, problem.weights.data(), problem.weights.size());
  std::vector<float> y(static_cast<std::size_t>(problem.columns * problem.y_stride()), kUntouched);
  AlignedBytes scratch(set.linear_scratch_bytes(problem.type, problem.depth, problem.columns));
  const LinearTask task = {.type = problem.type,
                           .weights = weights.data() + options.misalignment,
                           .row_bytes = problem.row_bytes(),
                           .depth = problem.depth,
                           .prepared = prepared.data(),
                           .columns = problem.columns,
                           .bias = options.bias ? problem.bias.data() : nullptr,
                           .y = y.data(),
                           .y_stride = problem.y_stride(),
                           .accumulate = options.accumulate};
  cuts = options.row_cuts;
  cuts.insert(cuts.begin(), 0);
  cuts.push_back(problem.rows);
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) set.linear(task, cuts[i], cuts[i + 1], scratch.data());
  return y;
}

// Compares with sums in double precision: of the rounded activations tightly, of the true ones loosely.
void expect_right(const KernelSet& set, const Problem& problem, const Options& options) {
  const std::vector<float> y = run(set, problem, options);
  std::vector<float> w(static_cast<std::size_t>(problem.depth));
  std::vector<std::vector<double>> seen;
  for (std::int64_t c = 0; c < problem.columns; ++c) {
    const float* x = problem.x.data() + c * problem.x_stride();
    seen.push_back(is_quantized(problem.type) ? rounded_activations(x, problem.depth)
                                              : std::vector<double>(x, x + problem.depth));
  }
  for (std::int64_t r = 0; r < problem.rows; ++r) {
    const auto row_bytes = static_cast<std::size_t>(problem.row_bytes());
    tensor::decode_row(problem.type, {problem.weights.data() + static_cast<std::size_t>(r) * row_bytes, row_bytes}, w);
    double largest = options.least_weight;
    for (const float value : w) largest = std::max(largest, std::fabs(static_cast<double>(value)));
    for (std::int64_t c = 0; c < problem.columns; ++c) {
      const float* x = problem.x.data() + c * problem.x_stride();
      double expected = options.accumulate ? static_cast<double>(kUntouched) : 0.0;
      if (options.bias) expected += static_cast<double>(problem.bias[static_cast<std::size_t>(r)]);
      double unrounded = expected, weight = std::fabs(expected), deviation = 0, energy = 0;
      for (std::int64_t k = 0; k < problem.depth; ++k) {
        const double seen_x = seen[static_cast<std::size_t>(c)][static_cast<std::size_t>(k)];
        const double value = static_cast<double>(w[static_cast<std::size_t>(k)]);
        expected += value * seen_x;
        unrounded += value * static_cast<double>(x[k]);
        weight += largest * std::fabs(seen_x);
        deviation += value * value;
        energy += seen_x * seen_x / static_cast<double>(problem.depth);
      }
      const double got = static_cast<double>(y[static_cast<std::size_t>(c * problem.y_stride() + r)]);
      ASSERT_NEAR(got, expected, 1e-6 * weight + 1e-30)
          << tensor::name(problem.type) << " rows " << problem.rows << " depth " << problem.depth << " columns "
          << problem.columns << " at row " << r << " column " << c;
      // Each activation is off by at most half a step of about 3 / 127.
      ASSERT_NEAR(got, unrounded,
                  1e-6 * weight + (is_quantized(problem.type) ? 0.08 * std::sqrt(deviation * energy) : 0.0));
    }
  }
  for (std::int64_t c = 0; c < problem.columns; ++c) {
    for (std::int64_t r = problem.rows; r < problem.y_stride(); ++r) {
      ASSERT_EQ(y[static_cast<std::size_t>(c * problem.y_stride() + r)], kUntouched) << "written outside the rows";
    }
  }
}

class LinearTest : public KernelTest {};

TEST_P(LinearTest, AgreesWithDoublePrecisionForEverySize) {
  std::mt19937 random(1);
  for (const DType type : kWeightTypes) {
    const std::int64_t block = tensor::traits(type).block_elements;
    std::vector<std::int64_t> depths = {block, 3 * block, block == 256 ? 1024 : 576};
    if (block == 1) depths = {1, 7, 15, 41, 576, 1100};
    for (const std::int64_t depth : depths) {
      for (const std::int64_t columns : {1, 2, 3, 4, 5, 7, 13, 17}) {
        for (const std::int64_t rows : {1, 19, 33}) {
          Problem problem(type, rows, depth, columns, random);
          ASSERT_NO_FATAL_FAILURE(expect_right(set(), problem, {}));
        }
      }
    }
    Problem many(type, 70, depths.back(), 64, random);
    ASSERT_NO_FATAL_FAILURE(expect_right(set(), many, {}));
  }
}

TEST_P(LinearTest, AddsBiasAndAccumulates) {
  std::mt19937 random(2);
  for (const DType type : kWeightTypes) {
    for (const std::int64_t columns : {1, 3, 9}) {
      for (const bool accumulate : {false, true}) {
        Problem problem(type, 37, 1280, columns, random);
        ASSERT_NO_FATAL_FAILURE(expect_right(set(), problem, {.bias = true, .accumulate = accumulate}));
        ASSERT_NO_FATAL_FAILURE(expect_right(set(), problem, {.bias = false, .accumulate = accumulate}));
      }
    }
  }
}

TEST_P(LinearTest, DoesNotDependOnCutsOfRowsAndColumns) {
  std::mt19937 random(3);
  for (const DType type : kWeightTypes) {
    for (const std::int64_t columns : {1, 4, 11}) {
      Problem problem(type, 83, 768, columns, random);
      const std::vector<float> whole = run(set(), problem, {});
      Options cut = {.row_cuts = {1, 4, 17, 20, 53, 82}};
      for (std::int64_t c = 1; c < columns; c += 2) cut.column_cuts.push_back(c);
      EXPECT_EQ(run(set(), problem, cut), whole) << tensor::name(type);
    }
  }
}

TEST_P(LinearTest, EachColumnIsComputedAsIfAmongOthersOfItsClass) {
  std::mt19937 random(4);
  for (const DType type : kWeightTypes) {
    for (const auto& [few, many] : {std::pair{1, 4}, std::pair{5, 64}}) {
      Problem large(type, 40, 512, many, random);
      Problem small = large;
      small.columns = few;
      const std::vector<float> y_large = run(set(), large, {}), y_small = run(set(), small, {});
      for (std::size_t i = 0; i < y_small.size(); ++i) ASSERT_EQ(y_small[i], y_large[i]) << tensor::name(type);
    }
  }
}

TEST_P(LinearTest, ReadsWeightsAtAnyAlignment) {
  std::mt19937 random(5);
  for (const DType type : kWeightTypes) {
    for (const std::int64_t columns : {1, 6}) {
      Problem problem(type, 21, 512, columns, random);
      const std::vector<float> aligned = run(set(), problem, {});
      for (const std::size_t misalignment : {2, 4, 34}) {
        if (type == DType::f32 && misalignment % 4 != 0) continue;
        EXPECT_EQ(run(set(), problem, {.misalignment = misalignment}), aligned) << tensor::name(type);
      }
    }
  }
}

// The largest products that the formats allow must not overflow on the way.
TEST_P(LinearTest, HoldsExtremeQuants) {
  std::mt19937 random(6);
  for (const DType type : kWeightTypes) {
    if (!is_quantized(type)) continue;
    for (const int fill : {0x00, 0x7F, 0x80, 0x81, 0xF0, 0x0F, 0xFF}) {
      for (const std::int64_t columns : {1, 6}) {
        Problem problem(type, 17, 512, columns, random);
        problem.weights = random_weights(type, 17, 512, random, ordinary_scale, fill);
        for (std::size_t i = 0; i < problem.x.size(); ++i) {
          const float pattern[3] = {1.0F, -1.0F, i % 2 == 0 ? 1.0F : -1.0F};
          problem.x[i] = pattern[i / static_cast<std::size_t>(problem.x_stride()) % 3];
        }
        ASSERT_NO_FATAL_FAILURE(expect_right(set(), problem, {.least_weight = 128 * 0.02})) << "every byte " << fill;
      }
    }
  }
}

TEST_P(LinearTest, HoldsExtremeScales) {
  std::mt19937 random(7);
  const std::vector<float> scales = {0.0F, -0.0F, 6e-8F, 3e-6F, -5e-5F, 2048.0F, -60000.0F};
  for (const DType type : kWeightTypes) {
    if (!is_quantized(type)) continue;
    for (const float scale : scales) {
      for (const std::int64_t columns : {1, 6}) {
        Problem problem(type, 17, 512, columns, random);
        problem.weights = random_weights(type, 17, 512, random, [&](std::mt19937&) { return scale; });
        ASSERT_NO_FATAL_FAILURE(expect_right(set(), problem, {})) << "scale " << scale;
      }
    }
  }
}

TEST_P(LinearTest, TakesTinyZeroAndLopsidedActivations) {
  std::mt19937 random(8);
  for (const DType type : {DType::q4_0, DType::q8_0, DType::q6_k, DType::f16}) {
    for (const float deviation : {0.0F, 1e-38F, 1e-20F, 1e6F}) {
      for (const std::int64_t columns : {1, 6}) {
        Problem problem(type, 9, 256, columns, random);
        for (float& value : problem.x) value *= deviation;
        problem.x[5] = 1000.0F * deviation;
        const std::vector<float> y = run(set(), problem, {});
        for (std::int64_t c = 0; c < columns; ++c) {
          for (std::int64_t r = 0; r < problem.rows; ++r) {
            ASSERT_TRUE(std::isfinite(y[static_cast<std::size_t>(c * problem.y_stride() + r)]));
          }
        }
        if (deviation > 1e-21F) {
          problem.x[5] = deviation;
          ASSERT_NO_FATAL_FAILURE(expect_right(set(), problem, {}));
        }
      }
    }
  }
}

TEST_P(LinearTest, DoesNotHideNaN) {
  std::mt19937 random(9);
  for (const DType type : kWeightTypes) {
    for (const std::int64_t columns : {1, 6}) {
      for (const float bad : {std::nanf(""), HUGE_VALF}) {
        Problem problem(type, 5, 256, columns, random);
        problem.x[77] = bad;
        const std::vector<float> y = run(set(), problem, {});
        EXPECT_FALSE(std::isfinite(y[0])) << tensor::name(type);
        if (columns > 1) {
          EXPECT_TRUE(std::isfinite(y[static_cast<std::size_t>(problem.y_stride())])) << tensor::name(type);
        }
      }
    }
  }
}

TEST_P(LinearTest, SupportsTheWeightTypesAndNoOthers) {
  for (const DType type : kWeightTypes) EXPECT_TRUE(set().linear_supported(type)) << tensor::name(type);
  for (const DType type : {DType::f64, DType::i8, DType::i64, DType::boolean, DType::f8_e4m3}) {
    EXPECT_FALSE(set().linear_supported(type)) << tensor::name(type);
  }
}

TEST_P(LinearTest, DecodesRowsAsTheCodecDoes) {
  std::mt19937 random(10);
  for (const DType type : kWeightTypes) {
    const std::vector<std::byte> row = random_weights(type, 1, 512, random);
    std::vector<float> expected(512), got(512);
    tensor::decode_row(type, row, expected);
    set().decode_row(type, row.data(), 512, got.data());
    EXPECT_EQ(got, expected) << tensor::name(type);
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, LinearTest, ::testing::ValuesIn(runnable_sets()), set_name);

}  // namespace
}  // namespace pastkv::engine
