#include "base/error.h"

#include <gtest/gtest.h>

namespace pastkv {
namespace {

TEST(Error, IsOneLineWithEveryPart) {
  const Error error({.file = "a.gguf", .place = "tensor t", .reason = "is short", .remedy = "download it again"});
  EXPECT_STREQ(error.what(), "a.gguf: tensor t: is short; download it again");
}

TEST(Error, LeavesOutEmptyParts) {
  EXPECT_STREQ(Error({.file = {}, .place = {}, .reason = "no model given", .remedy = {}}).what(), "no model given");
}

TEST(Error, ControlCharactersOfHostileNamesAreEscaped) {
  const Error error({.file = "a\nb\x1b[31m", .place = {}, .reason = "bad", .remedy = {}});
  EXPECT_STREQ(error.what(), "a\\x0ab\\x1b[31m: bad");
}

}  // namespace
}  // namespace pastkv
