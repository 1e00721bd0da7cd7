#include "formats/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "golden.h"

namespace pastkv::formats {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Gguf, EveryKindOfMetadataIsRead) {
  const GgufFile file = read_gguf(golden("every.gguf"));
  EXPECT_EQ(file.require_string("general.architecture"), "llama");
  EXPECT_EQ(file.require_int("t.u8"), 200);
  EXPECT_EQ(file.require_int("t.i8"), -100);
  EXPECT_EQ(file.require_int("t.u16"), 60000);
  EXPECT_EQ(file.require_int("t.i16"), -30000);
  EXPECT_EQ(file.require_int("t.u32"), 4000000000);
  EXPECT_EQ(file.require_int("t.i32"), -2000000000);
  EXPECT_EQ(file.require_int("t.i64"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(file.require_float("t.f32"), static_cast<double>(0.1F));
  EXPECT_EQ(file.require_float("t.f64"), 0.1);
  EXPECT_EQ(file.find_bool("t.true"), true);
  EXPECT_EQ(file.find_bool("t.false"), false);
  EXPECT_EQ(file.require_string("t.text"), "a\u2581\u00e9");
  EXPECT_THAT(file.find_ints("t.ints").value(), ElementsAre(1, -2, 3));
  EXPECT_THAT(file.find_ints("t.bytes").value(), ElementsAre(1, 255, 2));
  EXPECT_THAT(file.find_floats("t.floats").value(), ElementsAre(0.5, -1.5));
  EXPECT_EQ(std::get<std::vector<bool>>(file.metadata.at("t.bools")), (std::vector<bool>{true, false, true}));
  ASSERT_NE(file.find_strings("t.texts"), nullptr);
  EXPECT_THAT(*file.find_strings("t.texts"), ElementsAre("<s>", "", "\u2581the"));
}

TEST(Gguf, TensorsAreThoseOfTheReferenceWriter) {
  const GgufFile file = read_gguf(golden("every.gguf"));
  expect_listed(file.tensors, "every.gguf.json");
  EXPECT_EQ(file.file_bytes, std::filesystem::file_size(golden("every.gguf")));
  EXPECT_EQ(file.tensors.find("eight")->elements(), 192);
  EXPECT_EQ(file.tensors.find("Eight"), nullptr);
}

TEST(Gguf, AbsentKeysAreNothingAndRequiredOnesAreNamed) {
  const GgufFile file = read_gguf(golden("every.gguf"));
  EXPECT_FALSE(file.find_int("no"));
  EXPECT_FALSE(file.find_float("no"));
  EXPECT_FALSE(file.find_bool("no"));
  EXPECT_FALSE(file.find_string("no"));
  EXPECT_EQ(file.find_strings("no"), nullptr);
  EXPECT_FALSE(file.find_ints("no"));
  EXPECT_FALSE(file.find_floats("no"));
  const auto names_the_key = AllOf(HasSubstr("every.gguf"), HasSubstr("some.key"), HasSubstr("missing"));
  EXPECT_THAT(refusal([&] { file.require_int("some.key"); }), names_the_key);
  EXPECT_THAT(refusal([&] { file.require_float("some.key"); }), names_the_key);
  EXPECT_THAT(refusal([&] { file.require_string("some.key"); }), names_the_key);
}

TEST(Gguf, ValuesOfAnotherTypeAreRefusedByKeyAndBothTypes) {
  const GgufFile file = read_gguf(golden("every.gguf"));
  EXPECT_THAT(refusal([&] { file.find_int("t.text"); }),
              AllOf(HasSubstr("t.text"), HasSubstr("a string"), HasSubstr("integer")));
  EXPECT_THAT(refusal([&] { file.find_int("t.f32"); }), HasSubstr("a float"));
  EXPECT_THAT(refusal([&] { file.find_int("t.ints"); }), HasSubstr("an array of signed integers"));
  EXPECT_THAT(refusal([&] { file.find_int("t.u64"); }), HasSubstr("18446744073709551615 is too large"));
  EXPECT_THAT(refusal([&] { file.find_float("t.true"); }), HasSubstr("truth value"));
  EXPECT_THAT(refusal([&] { file.find_bool("t.u8"); }), HasSubstr("an unsigned integer"));
  EXPECT_THAT(refusal([&] { file.find_string("t.texts"); }), HasSubstr("an array of strings"));
  EXPECT_THAT(refusal([&] { file.find_strings("t.text"); }), HasSubstr("a string"));
  EXPECT_THAT(refusal([&] { file.find_ints("t.floats"); }), HasSubstr("an array of floats"));
  EXPECT_THAT(refusal([&] { file.find_floats("t.ints"); }), HasSubstr("an array of signed integers"));
}

TEST(Gguf, NumbersStandInForListsOfOneAndIntegersForFloats) {
  const GgufFile file = read_gguf(golden("every.gguf"));
  EXPECT_THAT(file.find_ints("t.u8").value(), ElementsAre(200));
  EXPECT_THAT(file.find_floats("t.f64").value(), ElementsAre(0.1));
  EXPECT_EQ(file.find_float("t.i16"), -30000.0);
}

TEST(Gguf, AFileWithoutTensorsNeedsNoData) {
  const TestFolder folder;
  GgufBytes bytes;
  bytes.pair("a", 4, raw<std::uint32_t>(1));
  const GgufFile file = read_gguf(folder.write("vocabulary.gguf", bytes.bytes()));
  EXPECT_TRUE(file.tensors.tensors().empty());
  EXPECT_EQ(file.require_int("a"), 1);
}

TEST(Gguf, VersionTwoIsReadAsThree) {
  const TestFolder folder;
  GgufBytes bytes;
  bytes.version = 2;
  bytes.tensor("t", {2}, 0, raw<float>(1) + raw<float>(2));
  EXPECT_EQ(read_gguf(folder.write("two.gguf", bytes.bytes())).tensors.find("t")->shape, std::vector<std::int64_t>{2});
}

TEST(Gguf, LongNamesAreKeptWhole) {
  const TestFolder folder;
  for (const std::size_t length : {63U, 64U, 300U}) {
    GgufBytes bytes;
    bytes.tensor(std::string(length, 'n'), {1}, 0, raw<float>(1));
    EXPECT_NE(read_gguf(folder.write("long.gguf", bytes.bytes())).tensors.find(std::string(length, 'n')), nullptr);
  }
}

TEST(Gguf, ScalarsAndOtherAlignmentsAreRead) {
  const TestFolder folder;
  for (const std::uint32_t alignment : {8U, 64U, 4096U}) {
    GgufBytes bytes;
    bytes.alignment = alignment;
    bytes.pair("general.alignment", 4, raw(alignment));
    bytes.tensor("scalar", {}, 0, raw<float>(7)).tensor("t", {1}, 0, raw<float>(8));
    const GgufFile file = read_gguf(folder.write("aligned.gguf", bytes.bytes()));
    EXPECT_TRUE(file.tensors.find("scalar")->shape.empty());
    EXPECT_EQ(file.tensors.find("scalar")->elements(), 1);
    float value = 0;
    std::memcpy(&value, file.tensors.find("t")->bytes.data(), sizeof value);
    EXPECT_EQ(value, 8.0F);
  }
}

TEST(Gguf, TheLastTensorsPaddingMayBeAbsent) {
  const TestFolder folder;
  GgufBytes bytes;
  bytes.tensor("t", {1}, 0, raw<float>(1));
  std::string file = bytes.bytes();
  file.resize(file.size() - 28);
  EXPECT_EQ(read_gguf(folder.write("unpadded.gguf", file)).tensors.find("t")->bytes.size(), 4U);
}

}  // namespace
}  // namespace pastkv::formats
