#include "base/byte_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace pastkv {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(ByteReader, ReadsLittleEndianNumbersAndTextAtAnyAlignment) {
  ByteReader reader(bytes_of("\x01\x02\x03\x04\x05\xFE\xFFname"), "f");
  EXPECT_EQ(reader.number<std::uint8_t>("a"), 1);
  EXPECT_EQ(reader.number<std::uint32_t>("b"), 0x05040302U);
  EXPECT_EQ(reader.number<std::int16_t>("c"), -2);
  EXPECT_EQ(reader.text(4, "d"), "name");
  EXPECT_EQ(reader.position(), 11U);
  EXPECT_EQ(reader.remaining(), 0U);
  EXPECT_EQ(reader.text(0, "e"), "");
}

TEST(ByteReader, NothingIsReadPastTheEnd) {
  ByteReader reader(bytes_of("12345678"), "f");
  reader.text(6, "start");
  for (const std::uint64_t length : {std::uint64_t{3}, std::numeric_limits<std::uint64_t>::max()}) {
    EXPECT_THROW(reader.text(length, "rest"), Error);
  }
  try {
    reader.number<std::uint32_t>("count");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                testing::StartsWith("f: count: 4 bytes at byte 6 reach past the end of the file (8 bytes)"));
  }
  EXPECT_EQ(reader.text(2, "rest"), "78");
}

}  // namespace
}  // namespace pastkv
