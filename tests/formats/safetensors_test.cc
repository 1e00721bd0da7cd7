#include "formats/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "golden.h"
#include "tensor/codec.h"

namespace pastkv::formats {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Safetensors : public testing::Test {
 protected:
  TensorSource accepted(const std::string& bytes) const {
    TensorSource source;
    read_safetensors(folder_.write("x.safetensors", bytes), source);
    return source;
  }
  std::string refused(const std::string& bytes) const {
    const auto path = folder_.write("x.safetensors", bytes);
    return refusal([&] {
      TensorSource source;
      read_safetensors(path, source);
    });
  }

  TestFolder folder_;
};

TEST_F(Safetensors, EveryDtypeIsThatOfTheReferenceWriter) {
  TensorSource source;
  read_safetensors(golden("every.safetensors"), source);
  expect_listed(source, "every.safetensors.json");
}

TEST_F(Safetensors, OddButValidFilesAreRead) {
  const std::string scalar = R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})";
  EXPECT_TRUE(accepted(safetensors(scalar, "1234")).find("a")->shape.empty());
  const TensorSource unordered = accepted(safetensors(
      R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]},"a":{"data_offsets":[0,2],"shape":[2],"dtype":"U8"}})",
      "1234"));
  EXPECT_EQ(static_cast<char>(unordered.find("b")->bytes[0]), '3');
  EXPECT_EQ(unordered.tensors()[0].name, "a");  // as they lie in the file
  const TensorSource unaligned = accepted(safetensors(
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})",
      "12345"));
  EXPECT_EQ(unaligned.find("b")->bytes.size(), 4U);
  EXPECT_TRUE(accepted(safetensors("{}  ", "")).tensors().empty());
  EXPECT_EQ(accepted(safetensors(R"({"__metadata__":{"dtype":"x","shape":"y"},"m":{"dtype":"BOOL","shape":[1],)"
                                 R"("data_offsets":[0,1]}})",
                                 "1"))
                .tensors()
                .size(),
            1U);
}

TEST_F(Safetensors, EmptyTensorsAreLegal) {
  const TensorSource source = accepted(safetensors(
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F16","shape":[3,0,7],"data_offsets":[4,4]},)"
      R"("c":{"dtype":"F8_E4M3","shape":[0],"data_offsets":[0,0]}})",
      "1234"));
  EXPECT_EQ(source.find("b")->elements(), 0);
  EXPECT_TRUE(source.find("b")->bytes.empty());
  EXPECT_TRUE(source.find("c")->bytes.empty());
  EXPECT_EQ(source.find("a")->bytes.size(), 4U);
}

TEST_F(Safetensors, SizesDisguisedAsEmptyAreRefused) {
  for (const char* shape : {"[1]", "[4294967296,4294967296]", "[4611686018427387904]", "[9223372036854775808]",
                            "[18446744073709551615,2]", "[4294967296,4294967296,0]"}) {
    EXPECT_THAT(
        refused(safetensors(R"({"a":{"dtype":"F32","shape":)" + std::string(shape) + R"(,"data_offsets":[0,0]}})", "")),
        HasSubstr("tensor a"))
        << shape;
  }
}

TEST_F(Safetensors, ShapeAndBytesMustAgree) {
  const std::string lie = R"({"w":{"dtype":"F8_E4M3","shape":[128,128],"data_offsets":[0,128]}})";
  EXPECT_THAT(refused(safetensors(lie, std::string(128, '\0'))),
              AllOf(HasSubstr("tensor w"), HasSubstr("[128, 128]"), HasSubstr("16384"), HasSubstr("128")));
}

TEST_F(Safetensors, DuplicateNamesAreRefusedAsSuch) {
  const std::string one = R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]})";
  const std::string other = R"("a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]})";
  const std::string far = R"("a":{"dtype":"U8","shape":[2],"data_offsets":[9,11]})";
  for (const std::string& second : {one, other, far}) {
    EXPECT_THAT(refused(safetensors("{" + one + "," + second + "}", "1234")),
                AllOf(HasSubstr("tensor a"), HasSubstr("duplicate")));
  }
  EXPECT_THAT(refused(safetensors(R"({"a":{"dtype":"U8","dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "12")),
              AllOf(HasSubstr("tensor a"), HasSubstr("duplicate key dtype")));
  EXPECT_THAT(refused(safetensors(R"({"__metadata__":{},"__metadata__":{}})", "")), HasSubstr("duplicate"));
}

TEST_F(Safetensors, TensorsCoverTheDataOnce) {
  const auto two = [](const std::string& first, const std::string& second) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + first +
           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}";
  };
  EXPECT_THAT(refused(safetensors(two("[0,4]", "[8,12]"), std::string(12, 'x'))),
              AllOf(HasSubstr("tensor b"), HasSubstr("hole")));
  EXPECT_THAT(refused(safetensors(two("[2,6]", "[6,10]"), std::string(10, 'x'))),
              AllOf(HasSubstr("tensor a"), HasSubstr("hole")));
  EXPECT_THAT(refused(safetensors(two("[0,4]", "[2,6]"), std::string(6, 'x'))),
              AllOf(HasSubstr("tensor b"), HasSubstr("overlap")));
  EXPECT_THAT(refused(safetensors(two("[0,4]", "[0,4]"), std::string(4, 'x'))), HasSubstr("overlap"));
  EXPECT_THAT(refused(safetensors(two("[0,4]", "[4,8]"), std::string(11, 'x'))),
              AllOf(HasSubstr("3 bytes follow the last tensor")));
  EXPECT_THAT(refused(safetensors(two("[4,0]", "[4,8]"), std::string(8, 'x'))),
              AllOf(HasSubstr("tensor a"), HasSubstr("backwards")));
}

TEST_F(Safetensors, ATruncatedFileGivesBothSizesAndTheCause) {
  const std::string whole = safetensors(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})", "12345678");
  EXPECT_THAT(refused(whole.substr(0, whole.size() - 4)),
              AllOf(HasSubstr(std::to_string(whole.size() - 4)), HasSubstr(std::to_string(whole.size())),
                    HasSubstr("incomplete")));
  EXPECT_THAT(refused(safetensors(
                  R"({"a":{"dtype":"U8","shape":[9223372036854775807],"data_offsets":[0,9223372036854775807]}})", "1")),
              HasSubstr("incomplete"));
}

TEST_F(Safetensors, LengthsOfTheHeaderAreChecked) {
  EXPECT_THAT(refused("abc"), HasSubstr("3 bytes"));
  EXPECT_THAT(refused(from_hex("FCFFFFFFFFFFFFFF") + "{}"),
              AllOf(HasSubstr("18446744073709551612"), HasSubstr("10 bytes")));
  EXPECT_THAT(refused(raw<std::uint64_t>(1000) + std::string(92, '{')),
              AllOf(HasSubstr("1000"), HasSubstr("100 bytes")));
  EXPECT_THAT(refused(from_hex("409DDF0700000000")), HasSubstr("132095296"));
  EXPECT_THAT(refused(from_hex("0000000000000000")), HasSubstr("header"));
}

TEST_F(Safetensors, TheLimitOfTheHeaderIsNamedAndCanBeRaised) {
  const auto path = folder_.write("x.safetensors", safetensors("{}" + std::string(998, ' '), ""));
  TensorSource source;
  EXPECT_THAT(refusal([&] { read_safetensors(path, source, 999); }), AllOf(HasSubstr("1000"), HasSubstr("999")));
  EXPECT_NO_THROW(read_safetensors(path, source, 1000));
  EXPECT_GE(kSafetensorsHeaderLimit, 132095296U);  // what a published file of 1.29 million tensors has
}

TEST_F(Safetensors, HeadersOfAnotherFormAreRefused) {
  EXPECT_THAT(refused(safetensors("[1,2]", "")), HasSubstr("is no safetensors file"));
  for (const char* header :
       {R"({"a":1})",
        R"({"a":null})",
        R"({"a":"text"})",
        R"({"a":[]})",
        R"({"a":true})",
        R"({"a":1.5})",
        R"({"a":{}})",
        R"({"a":{"dtype":"U8","shape":[0]}})",
        R"({"a":{"dtype":"U8","data_offsets":[0,0]}})",
        R"({"a":{"shape":[0],"data_offsets":[0,0]}})",
        R"({"a":{"dtype":1,"shape":[0],"data_offsets":[0,0]}})",
        R"({"a":{"dtype":"U8","shape":0,"data_offsets":[0,0]}})",
        R"({"a":{"dtype":"U8","shape":[0],"data_offsets":0}})",
        R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,0]}})",
        R"({"a":{"dtype":"U8","shape":[0.5],"data_offsets":[0,0]}})",
        R"({"a":{"dtype":"U8","shape":["1"],"data_offsets":[0,0]}})",
        R"({"a":{"dtype":"U8","shape":[[0]],"data_offsets":[0,0]}})",
        R"({"a":{"dtype":"U8","shape":[{}],"data_offsets":[0,0]}})",
        R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0]}})",
        R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0,0]}})",
        R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,-1]}})",
        R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"more":1}})",
        R"({"a":{"dtype":{"x":1},"shape":[0],"data_offsets":[0,0]}})",
        R"({"a":{"dtype":"U8","shape":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],"data_offsets":[0,0]}})"}) {
    EXPECT_THAT(refused(safetensors(header, "")), HasSubstr("tensor a")) << header;
  }
  for (const char* metadata : {"1", "null", "[]", "\"x\"", "{\"k\":1}", "{\"k\":{}}", "{\"k\":[]}", "{\"k\":null}"}) {
    EXPECT_THAT(refused(safetensors("{\"__metadata__\":" + std::string(metadata) + "}", "")),
                HasSubstr("__metadata__"));
  }
}

TEST_F(Safetensors, UnknownDtypesAreNamedBesideTheKnown) {
  EXPECT_THAT(refused(safetensors(R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", "1234")),
              AllOf(HasSubstr("tensor a"), HasSubstr("F33"), HasSubstr("BF16"), HasSubstr("F8_E4M3")));
}

TEST_F(Safetensors, BrokenJsonIsNamedByItsByte) {
  EXPECT_THAT(refused(safetensors(R"({"a":!})", "")), AllOf(HasSubstr("byte 14"), HasSubstr("not valid JSON")));
  EXPECT_THAT(refused(safetensors("{}x", "")), HasSubstr("not valid JSON"));
  EXPECT_LT(refused(safetensors("{\"" + std::string(100000, 'n'), "")).size(), 600U);
  EXPECT_THAT(refused(safetensors(R"({"a":)" + std::string(100000, '['), "")), HasSubstr("tensor a"));
}

TEST_F(Safetensors, OtherFilesAreNotTakenForTruncatedOnes) {
  EXPECT_THAT(refused("version https://git-lfs.github.com/spec/v1\n"), HasSubstr("git lfs pull"));
  EXPECT_THAT(refused("<!DOCTYPE html><html>not found</html>"), HasSubstr("is no safetensors file"));
  EXPECT_THAT(refused(""), HasSubstr("is empty"));
}

TEST_F(Safetensors, ValuesComeOutOfTheirBytes) {
  const std::string header =
      R"({"f":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"BF16","shape":[1],"data_offsets":[4,6]}})";
  const TensorSource source = accepted(safetensors(header, from_hex("7E7F01FE") + from_hex("C347")));
  std::vector<float> values(4);
  decode_row(source.find("f")->dtype, source.find("f")->bytes, values);
  EXPECT_EQ(values[0], 448.0F);
  EXPECT_NE(values[1], values[1]);
  EXPECT_EQ(values[2], 0.001953125F);
  EXPECT_EQ(values[3], -448.0F);
  decode_row(source.find("b")->dtype, source.find("b")->bytes, std::span(values).first(1));
  EXPECT_EQ(values[0], 99840.0F);  // 100000 as bf16 keeps it: beyond f16, not beyond bf16
}

}  // namespace
}  // namespace pastkv::formats
