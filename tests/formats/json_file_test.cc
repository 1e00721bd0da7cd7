#include "formats/json_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "files.h"

namespace pastkv::formats {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class JsonFile : public testing::Test {
 protected:
  std::string refused(const std::string& text) const {
    const auto path = folder_.write("x.json", text);
    return refusal([&] { read_json_object(path); });
  }

  TestFolder folder_;
};

TEST_F(JsonFile, AnObjectIsRead) {
  EXPECT_EQ(read_json_object(folder_.write("x.json", "\xEF\xBB\xBF{\"a\": [1, 2.5, null, \"\\u00e9\"]}\n"))["a"][3],
            "\u00e9");
}

TEST_F(JsonFile, WhatIsNoObjectIsRefusedByWhatItIs) {
  EXPECT_THAT(refused("[]"), HasSubstr("array"));
  EXPECT_THAT(refused("\"x\""), HasSubstr("string"));
  EXPECT_THAT(refused("3"), HasSubstr("number"));
  EXPECT_THAT(refused("null"), HasSubstr("null"));
  EXPECT_THAT(refused(""), HasSubstr("empty"));
}

TEST_F(JsonFile, FaultsAreNamedByByteAndKind) {
  EXPECT_THAT(refused("{\"a\":1,}"), AllOf(HasSubstr("byte 8"), HasSubstr("syntax error")));
  EXPECT_THAT(refused("{\"a\":\"\xFF\"}"), HasSubstr("byte 7"));
  EXPECT_THAT(refused("{\"a\":1} x"), HasSubstr("byte 9"));
  EXPECT_THAT(refused("{\"a\":1e999}"), HasSubstr("not valid JSON"));
  EXPECT_LT(refused("{\"" + std::string(100000, 'n')).size(), 600U);
}

TEST_F(JsonFile, DepthIsLimited) {
  const auto nested = [](int depth) {
    return "{\"a\":" + std::string(static_cast<std::size_t>(depth), '[') +
           std::string(static_cast<std::size_t>(depth), ']') + "}";
  };
  EXPECT_NO_THROW(read_json_object(folder_.write("x.json", nested(255))));
  EXPECT_THAT(refused(nested(300)), HasSubstr("256"));
  EXPECT_THAT(refused("{\"a\":" + std::string(5000000, '[')), HasSubstr("256"));
}

TEST_F(JsonFile, SizeIsLimited) {
  const auto path = folder_.write("x.json", "{");
  std::filesystem::resize_file(path, (std::uint64_t{64} << 20) + 1);
  EXPECT_THAT(refusal([&] { read_json_object(path); }), AllOf(HasSubstr("67108865"), HasSubstr("67108864")));
}

}  // namespace
}  // namespace pastkv::formats
