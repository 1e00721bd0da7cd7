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

TEST_F(GgufHostile, WhatIsNoGgufIsSaidToBeNone) {
  EXPECT_THAT(refused("PK\x03\x04 some archive that is long enough"), HasSubstr("is no GGUF file"));
  EXPECT_THAT(refused(""), HasSubstr("is empty"));
  EXPECT_THAT(refused("GG"), HasSubstr("2 bytes"));
  EXPECT_THAT(refused("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"), HasSubstr("git lfs pull"));
}

TEST_F(GgufHostile, VersionsAndByteOrderAreNamed) {
  GgufBytes file;
  file.version = 1;
  EXPECT_THAT(refused(file), AllOf(HasSubstr("version 1"), HasSubstr("newer conversion")));
  file.version = 0;
  EXPECT_THAT(refused(file), HasSubstr("version 0"));
  file.version = 4;
  EXPECT_THAT(refused(file), AllOf(HasSubstr("version 4"), HasSubstr("newer pastkv")));
  file.version = 0x03000000;
  EXPECT_THAT(refused(file), HasSubstr("big-endian"));
}

TEST_F(GgufHostile, CountsAndLengthsBeyondTheFileNameFieldValueAndSize) {
  EXPECT_THAT(refused(from_hex("474755460300000000000000000000000100000000000000ffffffffffff0000")),
              AllOf(HasSubstr("metadata entry 0"), HasSubstr("281474976710655"), HasSubstr("32 bytes")));
  EXPECT_THAT(refused(from_hex("474755460300000000000000000000200000000000000000")),
              AllOf(HasSubstr("tensor count"), HasSubstr("2305843009213693952"), HasSubstr("24 bytes")));
  EXPECT_THAT(refused(from_hex("474755460300000001000000000000000000000000000000010000000000000074ffffffff")),
              AllOf(HasSubstr("tensor t"), HasSubstr("4294967295"), HasSubstr("37")));
}

TEST_F(GgufHostile, EveryCountOfEveryFieldIsBounded) {
  for (const std::uint64_t huge :
       {std::uint64_t{1} << 33, std::uint64_t{1} << 60, ~std::uint64_t{0} - 7, ~std::uint64_t{0}}) {
    const std::string number = std::to_string(huge);
    const std::string length = raw(huge);
    GgufBytes tensors;
    tensors.tensor_count = huge;
    EXPECT_THAT(refused(tensors), AllOf(HasSubstr("tensor count"), HasSubstr(number)));
    GgufBytes pairs;
    pairs.pair_count = huge;
    EXPECT_THAT(refused(pairs), AllOf(HasSubstr("metadata count"), HasSubstr(number)));
    EXPECT_THAT(refused(GgufBytes().pair("k", 8, length + "text")), AllOf(HasSubstr("key k"), HasSubstr(number)));
    GgufBytes name;
    name.tensor_count = 1;
    name.infos = length;
    EXPECT_THAT(refused(name), AllOf(HasSubstr("name of tensor 0"), HasSubstr(number)));
    for (const std::uint32_t type : {0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 10U, 11U, 12U}) {
      EXPECT_THAT(refused(GgufBytes().array("k", type, huge, "12345678")), AllOf(HasSubstr("key k"), HasSubstr(number)))
          << type;
    }
    EXPECT_THAT(refused(GgufBytes().array("k", 8, 1, length)), AllOf(HasSubstr("key k"), HasSubstr(number)));
  }
}

TEST_F(GgufHostile, ASparseFileDoesNotUnlockMemory) {
  const std::uint64_t size = std::uint64_t{1} << 36;
  for (const std::uint32_t type : {0U, 8U, 12U}) {
    const auto path = folder_.write("sparse.gguf", GgufBytes().array("k", type, size / 16, "").bytes());
    std::filesystem::resize_file(path, size);
    EXPECT_THAT(refusal([&] { read_gguf(path); }), AllOf(HasSubstr("key k"), HasSubstr("allowed"))) << type;
  }
  const auto path = folder_.write("sparse.gguf", GgufBytes().pair("k", 8, raw(size / 2)).bytes());
  std::filesystem::resize_file(path, size);
  EXPECT_THAT(refusal([&] { read_gguf(path); }), AllOf(HasSubstr("key k"), HasSubstr("allowed")));
}

TEST_F(GgufHostile, ZeroDimensionsAreRefused) {
  EXPECT_THAT(
      refused(from_hex("47475546030000000100000000000000000000000000000001000000000000007402000000010000000000000000"
                       "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000")),
      AllOf(HasSubstr("tensor t"), HasSubstr("[1, 0]")));
  for (const std::vector<std::uint64_t>& dims : std::vector<std::vector<std::uint64_t>>{{0}, {0, 5}, {3, 0, 2, 2}}) {
    EXPECT_THAT(refused(GgufBytes().tensor("t", dims, 0, kFour)), HasSubstr("tensor t"));
  }
}

TEST_F(GgufHostile, ProductsThatOverflowAreRefused) {
  const std::uint64_t big = std::uint64_t{1} << 32;
  for (const std::vector<std::uint64_t>& dims : std::vector<std::vector<std::uint64_t>>{{big, big},
                                                                                        {big, big / 2},
                                                                                        {~std::uint64_t{0}},
                                                                                        {1, std::uint64_t{1} << 63},
                                                                                        {big, big / 4},
                                                                                        {3, big, big, 4}}) {
    EXPECT_THAT(refused(GgufBytes().tensor("t", dims, 0, kFour)), AllOf(HasSubstr("tensor t"), HasSubstr("overflow")));
  }
}

TEST_F(GgufHostile, RowsThatAreNoWholeBlocksAreRefused) {
  EXPECT_THAT(refused(GgufBytes().tensor("t", {33}, 2, std::string(64, '\0'))),
              AllOf(HasSubstr("tensor t"), HasSubstr("33"), HasSubstr("q4_0")));
  // 2 x 128 is one block of 256, but no row is.
  EXPECT_THAT(refused(GgufBytes().tensor("t", {128, 2}, 12, std::string(144, '\0'))), HasSubstr("128"));
  EXPECT_THAT(refused(GgufBytes().tensor("t", {}, 8, std::string(34, '\0'))), HasSubstr("q8_0"));
}

TEST_F(GgufHostile, TypesThatAreNotReadAreNamedBesideThoseThatAre) {
  EXPECT_THAT(refused(GgufBytes().tensor("t", {32}, 39, std::string(17, '\0'))),
              AllOf(HasSubstr("tensor t"), HasSubstr("39 (MXFP4)"), HasSubstr("Q4_K"), HasSubstr("BF16")));
  for (const std::uint32_t type : {4U, 5U, 36U, 43U, 0xFFFFFFFFU}) {
    EXPECT_THAT(refused(GgufBytes().tensor("t", {32}, type, kFour)), HasSubstr("type " + std::to_string(type)));
  }
}

TEST_F(GgufHostile, ElementTypesOfArraysAreKnownOrRefused) {
  EXPECT_THAT(refused(from_hex("47475546030000000000000000000000010000000000000001000000000000006b090000000d00000005"
                               "000000000000000000000000000000")),
              AllOf(HasSubstr("key k"), HasSubstr("element type 13")));
  EXPECT_THAT(refused(GgufBytes().array("k", 9, 1, raw<std::uint32_t>(0) + raw<std::uint64_t>(0))),
              AllOf(HasSubstr("key k"), HasSubstr("element type 9"), HasSubstr("array of arrays")));
  EXPECT_THAT(refused(GgufBytes().pair("k", 13, "12345678")), AllOf(HasSubstr("key k"), HasSubstr("type 13")));
  EXPECT_THAT(refused(GgufBytes().pair("k", 0xFFFFFFFF, "12345678")), HasSubstr("type 4294967295"));
}

TEST_F(GgufHostile, DuplicateAndEmptyNamesAreRefused) {
  EXPECT_THAT(
      refused(from_hex(
          "474755460300000002000000000000000000000000000000010000000000000074010000000100000000000000000000000000"
          "000000000000010000000000000074010000000100000000000000000000002000000000000000000000000000000000000000"
          "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000")),
      AllOf(HasSubstr("tensor t"), HasSubstr("duplicate")));
  // One tensor described twice is out of place too; what is said is the cause.
  EXPECT_THAT(refused(GgufBytes().tensor("t", {4}, 0, kFour).tensor_at("t", {4}, 0, 0, "")), HasSubstr("duplicate"));
  EXPECT_THAT(refused(GgufBytes().pair("k", 7, "\x01").pair("k", 7, "\x01")),
              AllOf(HasSubstr("key k"), HasSubstr("duplicate")));
  EXPECT_THAT(refused(GgufBytes().tensor("", {4}, 0, kFour)), HasSubstr("empty"));
  EXPECT_THAT(refused(GgufBytes().pair("", 7, "\x01")), HasSubstr("empty"));
}

TEST_F(GgufHostile, HugeNamesDoNotFloodTheLine) {
  const std::string name(60000, 'n');
  EXPECT_LT(refused(GgufBytes().tensor(name, {0}, 0, "")).size(), 600U);
  EXPECT_LT(refused(GgufBytes().pair(name, 99, "")).size(), 600U);
  EXPECT_THAT(refused(GgufBytes().tensor(std::string(70000, 'n'), {1}, 0, kFour)), HasSubstr("70000"));
}

TEST_F(GgufHostile, AlignmentIsAPowerOfTwoFromEight) {
  EXPECT_THAT(refused(from_hex("474755460300000000000000000000000100000000000000110000000000000067656e6572616c2e616c696"
                               "76e6d656e740400000030000000")),
              AllOf(HasSubstr("general.alignment"), HasSubstr("48"), HasSubstr("power of two")));
  for (const std::uint32_t bad : {0U, 1U, 4U, 7U, 9U, 0xFFFFFFFFU, 0x80000000U}) {
    EXPECT_THAT(refused(GgufBytes().pair("general.alignment", 4, raw(bad))), HasSubstr("general.alignment"));
  }
  EXPECT_THAT(refused(GgufBytes().pair("general.alignment", 5, raw<std::int32_t>(32))), HasSubstr("unsigned"));
}

TEST_F(GgufHostile, OffsetsFollowEachOther) {
  for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{16}, std::uint64_t{33}, std::uint64_t{64},
                                     ~std::uint64_t{0}, std::uint64_t{1} << 63}) {
    EXPECT_THAT(refused(GgufBytes().tensor("a", {4}, 0, kFour).tensor_at("b", {4}, 0, offset, kFour)),
                AllOf(HasSubstr("tensor b"), HasSubstr("offset " + std::to_string(offset)), HasSubstr("32")));
  }
  EXPECT_THAT(refused(GgufBytes().tensor_at("a", {4}, 0, 32, kFour)), HasSubstr("tensor a"));
}

TEST_F(GgufHostile, ATruncatedFileGivesBothSizesAndTheCause) {
  const std::string whole =
      GgufBytes().tensor("a", {4}, 0, kFour).tensor("b", {4, 100}, 0, std::string(1600, '\1')).bytes();
  const std::string cut = whole.substr(0, whole.size() - 700);
  EXPECT_THAT(refused(cut), AllOf(HasSubstr(std::to_string(cut.size())), HasSubstr(std::to_string(whole.size())),
                                  HasSubstr("incomplete")));
  EXPECT_THAT(refused(GgufBytes().tensor("t", {std::uint64_t{1} << 40}, 0, kFour)), HasSubstr("incomplete"));
}

}  // namespace
}  // namespace pastkv::formats
