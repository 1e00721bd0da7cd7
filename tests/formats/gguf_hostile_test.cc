#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "files.h"
#include "formats/gguf.h"

namespace pastkv::formats {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class GgufHostile : public testing::Test {
 protected:
  std::string refused(const std::string& bytes) const {
    const auto path = folder_.write("x.gguf", bytes);
    return refusal([&] { read_gguf(path); });
  }
  std::string refused(const GgufBytes& file) const { return refused(file.bytes()); }

  TestFolder folder_;
};

const std::string kFour = raw<float>(1) + raw<float>(2) + raw<float>(3) + raw<float>(4);

TEST_F(GgufHostile, CountsAndLengthsBeyondTheFileNameFieldValueAndSize) {
  EXPECT_THAT(refused(from_hex("474755460300000000000000000000000100000000000000ffffffffffff0000")),
              AllOf(HasSubstr("metadata entry 0"), HasSubstr("281474976710655"), HasSubstr("32 bytes")));
  EXPECT_THAT(refused(from_hex("474755460300000000000000000000200000000000000000")),
              AllOf(HasSubstr("tensor count"), HasSubstr("2305843009213693952"), HasSubstr("24 bytes")));
  EXPECT_THAT(refused(from_hex("474755460300000001000000000000000000000000000000010000000000000074ffffffff")),
              AllOf(HasSubstr("tensor t"), HasSubstr("4294967295"), HasSubstr("37")));
}

TEST_F(GgufHostile, ZeroDimensionsAreRefused) {
  EXPECT_THAT(
      refused(from_hex("47475546030000000100000000000000000000000000000001000000000000007402000000010000000000000000"
                       "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000")),
      AllOf(HasSubstr("tensor t"), HasSubstr("[1, 0]")));
}

TEST_F(GgufHostile, ElementTypesOfArraysAreKnownOrRefused) {
  EXPECT_THAT(refused(from_hex("47475546030000000000000000000000010000000000000001000000000000006b090000000d00000005"
                               "000000000000000000000000000000")),
              AllOf(HasSubstr("key k"), HasSubstr("element type 13")));
}

}  // namespace
}  // namespace pastkv::formats
