#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <set>

namespace pastkv::tensor {
namespace {

TEST(DType, NamesAreUniqueAndFoundAgain) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(DType::iq4_nl); ++i) {
    const auto type = static_cast<DType>(i);
    EXPECT_TRUE(names.insert(name(type)).second) << name(type);
    EXPECT_EQ(dtype_from_name(name(type)), type);
  }
  EXPECT_FALSE(dtype_from_name("q9_9"));
  EXPECT_FALSE(dtype_from_name(""));
}

TEST(DType, ByteSizeCountsWholeBlocksOnly) {
  EXPECT_EQ(byte_size(DType::q4_0, 64), 36U);
  EXPECT_EQ(byte_size(DType::q6_k, 512), 420U);
  EXPECT_EQ(byte_size(DType::f8_e4m3, 3), 3U);
  EXPECT_EQ(byte_size(DType::i64, 3), 24U);
  EXPECT_EQ(byte_size(DType::q4_0, 0), 0U);
  EXPECT_FALSE(byte_size(DType::q4_0, 33));
  EXPECT_FALSE(byte_size(DType::q4_k, 128));
}

TEST(DType, ByteSizeRefusesToWrap) {
  EXPECT_FALSE(byte_size(DType::f32, 1ULL << 62));
  EXPECT_EQ(byte_size(DType::f32, (1ULL << 62) - 1), ~0ULL - 3);
  EXPECT_EQ(byte_size(DType::u8, ~0ULL), ~0ULL);
}

}  // namespace
}  // namespace pastkv::tensor
