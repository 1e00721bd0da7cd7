// The encoders of super-blocks against the error that llama.cpp's quantizers make of the same numbers, measured by
// tests/tools/measure_encoders.py.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tensor/codec.h"

namespace pastkv::tensor {
namespace {

// A sum of 12 uniform numbers each, of a spread that changes from group to group.
std::vector<float> numbers() {
  constexpr std::size_t kCount = 256 * 64;
  std::uint32_t state = 12345;
  std::vector<float> out(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    double total = 0;
    for (int n = 0; n < 12; ++n) {
      state = state * 1664525U + 1013904223U;
      total += static_cast<double>(state >> 8U) / 16777216.0;
    }
    out[i] = static_cast<float>((total - 6.0) * (0.5 + static_cast<double>(i / 16 % 7) * 0.25));
  }
  return out;
}

std::vector<float> back_and_forth(DType type, const std::vector<float>& row) {
  std::vector<std::byte> encoded(byte_size(type, row.size()).value());
  encode_row(type, row, encoded);
  std::vector<float> decoded(row.size());
  decode_row(type, encoded, decoded);
  return decoded;
}

struct Reference {
  DType type;
  double plain;     // root mean square of the error over that of the numbers
  double weighted;  // the same, each element weighted by its magnitude
};

class SuperBlock : public testing::TestWithParam<Reference> {};

TEST_P(SuperBlock, LosesNoMoreThanTheReferencesQuantizer) {
  const std::vector<float> row = numbers();
  const std::vector<float> back = back_and_forth(GetParam().type, row);
  double error = 0;
  double sum = 0;
  double weighted_error = 0;
  double weighted_sum = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const double difference = static_cast<double>(back[i]) - row[i];
    const double square = static_cast<double>(row[i]) * row[i];
    error += difference * difference;
    sum += square;
    weighted_error += std::fabs(row[i]) * difference * difference;
    weighted_sum += std::fabs(row[i]) * square;
  }
  EXPECT_LT(std::sqrt(error / sum), GetParam().plain * 1.02);
  EXPECT_LT(std::sqrt(weighted_error / weighted_sum), GetParam().weighted * 1.01);
}

TEST_P(SuperBlock, NumbersThatTheFormatHoldsComeBack) {
  std::vector<float> row(256, 0.0F);
  EXPECT_EQ(back_and_forth(GetParam().type, row), row);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = i % 16 < 8 ? 0.0F : 1.0F;
  const std::vector<float> back = back_and_forth(GetParam().type, row);
  for (std::size_t i = 0; i < row.size(); ++i) EXPECT_NEAR(back[i], row[i], 0.02F) << i;
}

TEST_P(SuperBlock, NonFiniteAndTinyNumbersStayInTheBlock) {
  for (const float odd : {NAN, INFINITY, -INFINITY, 1e-45F, -1e-40F, 3e38F, -3e38F}) {
    std::vector<float> row(256, 0.0F);
    row[7] = odd;
    row[9] = -odd;
    const std::vector<float> back = back_and_forth(GetParam().type, row);
    if (!(std::fabs(odd) < 1.0F)) continue;
    for (const float number : back) EXPECT_LT(std::fabs(number), 1e-30F);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryType, SuperBlock,
                         testing::Values(Reference{DType::q2_k, 0.296429, 0.193251},
                                         Reference{DType::q3_k, 0.150588, 0.104749},
                                         Reference{DType::q4_k, 0.074263, 0.048356},
                                         Reference{DType::q5_k, 0.037693, 0.024886},
                                         Reference{DType::q6_k, 0.017820, 0.011688}),
                         [](const auto& tested) { return std::string(name(tested.param.type)); });

}  // namespace
}  // namespace pastkv::tensor
