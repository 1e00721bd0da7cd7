#include "tensor/codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"

namespace pastkv::tensor {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<std::byte> golden_bytes(const std::string& name) {
  std::ifstream file(std::filesystem::path(PASTKV_TEST_DATA) / "codec" / name, std::ios::binary);
  EXPECT_TRUE(file) << name;
  const std::vector<char> chars{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::byte> bytes(chars.size());
  if (!bytes.empty()) std::memcpy(bytes.data(), chars.data(), bytes.size());
  return bytes;
}

std::vector<float> golden_floats(const std::string& name) {
  const std::vector<std::byte> bytes = golden_bytes(name);
  std::vector<float> floats(bytes.size() / sizeof(float));
  if (!floats.empty()) std::memcpy(floats.data(), bytes.data(), bytes.size());
  return floats;
}

std::vector<DType> float_types() {
  std::vector<DType> types;
  for (int i = 0; i <= static_cast<int>(DType::iq4_nl); ++i) {
    if (traits(static_cast<DType>(i)).is_float) types.push_back(static_cast<DType>(i));
  }
  return types;
}

class Decode : public testing::TestWithParam<DType> {};

TEST_P(Decode, EqualsTheReferenceBitForBit) {
  const std::string type(name(GetParam()));
  const std::vector<float> expected = golden_floats(type + ".f32");
  // One byte off every alignment: rows lie anywhere in a mapped file.
  std::vector<std::byte> row = golden_bytes(type + ".row");
  row.insert(row.begin(), std::byte{0});
  ASSERT_FALSE(expected.empty());
  ASSERT_EQ(byte_size(GetParam(), expected.size()), row.size() - 1);
  std::vector<float> decoded(expected.size());
  decode_row(GetParam(), std::span(row).subspan(1), decoded);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(decoded[i])) << type << " element " << i;
    } else {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(decoded[i]), std::bit_cast<std::uint32_t>(expected[i]))
          << type << " element " << i << ": " << decoded[i] << ", expected " << expected[i];
    }
  }
}

std::vector<DType> golden_types() {
  std::vector<DType> types = float_types();
  std::erase(types, DType::f32);
  return types;
}

std::string type_name(const testing::TestParamInfo<DType>& info) {
  return std::string(name(info.param));
}

INSTANTIATE_TEST_SUITE_P(EveryType, Decode, testing::ValuesIn(golden_types()), type_name);

class Encode : public testing::TestWithParam<DType> {};

TEST_P(Encode, EqualsTheReferenceBitForBit) {
  const std::vector<float> row = golden_floats("encode.f32");
  const std::vector<std::byte> expected = golden_bytes(std::string(name(GetParam())) + ".encoded");
  ASSERT_FALSE(expected.empty());
  ASSERT_EQ(byte_size(GetParam(), row.size()), expected.size());
  std::vector<std::byte> encoded(expected.size());
  encode_row(GetParam(), row, encoded);
  EXPECT_EQ(encoded, expected);
}

TEST_P(Encode, NonFiniteAndTinyValuesStayInTheBlock) {
  for (const float odd : {kNan, kInfinity, -kInfinity, 1e-45F, -1e-40F, 3e38F, -3e38F}) {
    std::vector<float> row(256, 0.0F);
    row[7] = odd;
    row[9] = -odd;
    std::vector<std::byte> encoded(byte_size(GetParam(), row.size()).value());
    encode_row(GetParam(), row, encoded);
    std::vector<float> decoded(row.size());
    decode_row(GetParam(), encoded, decoded);
    if (std::fabs(odd) < 1.0F) {
      for (const float value : decoded) EXPECT_LT(std::fabs(value), 1e-30F);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryType, Encode,
                         testing::Values(DType::f16, DType::bf16, DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0,
                                         DType::q5_1),
                         type_name);

TEST(Codec, F32RowsPassThrough) {
  const std::vector<float> row = {1.5F, -0.0F, 3e38F};
  std::vector<std::byte> bytes(12);
  encode_row(DType::f32, row, bytes);
  std::vector<float> back(3);
  decode_row(DType::f32, bytes, back);
  EXPECT_EQ(std::memcmp(row.data(), back.data(), 12), 0);
}

TEST(Codec, EmptyRowsAreRows) {
  for (const DType type : float_types()) EXPECT_NO_THROW(decode_row(type, {}, {})) << name(type);
  EXPECT_NO_THROW(encode_row(DType::f32, {}, {}));
}

TEST(Codec, TypesWithoutFloatValuesAreRefusedByName) {
  std::vector<std::byte> bytes(8);
  std::vector<float> floats(1);
  for (int i = 0; i <= static_cast<int>(DType::iq4_nl); ++i) {
    const auto type = static_cast<DType>(i);
    if (!traits(type).is_float) {
      EXPECT_THROW(decode_row(type, bytes, floats), Error) << name(type);
    }
    if (!can_encode(type)) {
      EXPECT_THROW(encode_row(type, floats, bytes), Error) << name(type);
    }
  }
}

TEST(F16, EveryFiniteValueIsExactAndComesBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const int exponent = (half >> 10) & 0x1F;
    const int mantissa = half & 0x3FF;
    const float value = f16_to_f32(half);
    if (exponent == 0x1F && mantissa != 0) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value))));
      continue;
    }
    double expected = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    if (exponent == 0x1F) expected = std::numeric_limits<double>::infinity();
    if ((half & 0x8000) != 0) expected = -expected;
    ASSERT_EQ(static_cast<double>(value), expected) << bits;
    ASSERT_EQ(f32_to_f16(value), half);
  }
}

TEST(F16, RoundsToNearestEven) {
  for (std::uint32_t bits = 0; bits < 0x7BFF; ++bits) {
    const auto below = static_cast<std::uint16_t>(bits);
    const auto above = static_cast<std::uint16_t>(bits + 1);
    const float middle = (f16_to_f32(below) + f16_to_f32(above)) / 2;  // exact in f32
    ASSERT_EQ(f32_to_f16(middle), (below & 1) == 0 ? below : above) << bits;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 0.0F)), below);
    ASSERT_EQ(f32_to_f16(-std::nextafter(middle, kInfinity)), above | 0x8000);
  }
}

TEST(F16, OverflowGivesInfinityFromHalfwayOn) {
  EXPECT_EQ(f32_to_f16(65519.996F), 0x7BFF);
  EXPECT_EQ(f32_to_f16(65520.0F), 0x7C00);
  EXPECT_EQ(f32_to_f16(-1e30F), 0xFC00);
}

TEST(Bf16, RoundsToNearestEvenAndKeepsNan) {
  EXPECT_EQ(f32_to_bf16(1.0F), 0x3F80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3F808000U)), 0x3F80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3F818000U)), 0x3F82);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3F808001U)), 0x3F81);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x7F7FFFFFU)), 0x7F80);
  // A payload in the low half only must not turn into infinity.
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7F800001U)))));
}

TEST(F8, E4m3HasNoInfinity) {
  const std::vector<std::byte> row = {std::byte{0x7E}, std::byte{0x7F}, std::byte{0x01}, std::byte{0xFE}};
  std::vector<float> values(4);
  decode_row(DType::f8_e4m3, row, values);
  EXPECT_EQ(values[0], 448.0F);
  EXPECT_TRUE(std::isnan(values[1]));
  EXPECT_EQ(values[2], 0.001953125F);
  EXPECT_EQ(values[3], -448.0F);
}

}  // namespace
}  // namespace pastkv::tensor
