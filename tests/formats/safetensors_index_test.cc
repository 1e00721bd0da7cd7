#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/safetensors.h"
#include "golden.h"

namespace pastkv::formats {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kFirst = "model-00001-of-00002.safetensors";
constexpr const char* kSecond = "model-00002-of-00002.safetensors";

std::string one_tensor(const std::string& name, const std::string& bytes) {
  return safetensors("{\"" + name + R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", bytes);
}

// A model of two shards, a in the first and b in the second, to be broken.
class SafetensorsIndex : public testing::Test {
 protected:
  void SetUp() override {
    folder_.write(kFirst, one_tensor("a", "1"));
    folder_.write(kSecond, one_tensor("b", "2"));
    write_map({{"a", kFirst}, {"b", kSecond}});
  }
  void write_map(const nlohmann::json& map) { write_index({{"metadata", {{"total_size", 2}}}, {"weight_map", map}}); }
  void write_index(const nlohmann::json& index) {
    index_ = folder_.write("model.safetensors.index.json", index.dump());
  }

  std::vector<std::string> read() {
    std::vector<std::string> warnings;
    source_ = TensorSource();
    read_safetensors_index(index_, source_, warnings);
    return warnings;
  }
  std::string refused() {
    return refusal([&] { read(); });
  }

  TestFolder folder_;
  std::filesystem::path index_;
  TensorSource source_;
};

TEST_F(SafetensorsIndex, ShardsAreReadTogether) {
  EXPECT_THAT(read(), IsEmpty());
  EXPECT_EQ(static_cast<char>(source_.find("a")->bytes[0]), '1');
  EXPECT_EQ(static_cast<char>(source_.find("b")->bytes[0]), '2');
}

TEST_F(SafetensorsIndex, WhatTheReferenceWriterShardsIsRead) {
  std::vector<std::string> warnings;
  read_safetensors_index(golden("sharded/model.safetensors.index.json"), source_, warnings);
  EXPECT_THAT(warnings, IsEmpty());
  EXPECT_EQ(source_.tensors().size(), 6U);
}

TEST_F(SafetensorsIndex, MissingShardsAreNamedBeforeAnyIsRead) {
  std::filesystem::remove(folder_.path() / kSecond);
  folder_.write(kFirst, "broken");
  EXPECT_THAT(refused(), AllOf(HasSubstr(kSecond), HasSubstr("1 of 2 shards"), HasSubstr("missing")));
}

TEST_F(SafetensorsIndex, AStaleIndexIsNamedWithTheFilesFound) {
  write_map({{"a", "model-00001-of-00030.safetensors"}, {"b", "model-00002-of-00030.safetensors"}});
  EXPECT_THAT(refused(), AllOf(HasSubstr("model.safetensors.index.json"), HasSubstr("model-00001-of-00030"),
                               HasSubstr(kFirst), HasSubstr(kSecond), HasSubstr("stale")));
}

TEST_F(SafetensorsIndex, ATensorThatItsShardLacksIsNamedWithTheShard) {
  write_map({{"a", kFirst}, {"b", kSecond}, {"c", kFirst}});
  EXPECT_THAT(refused(), AllOf(HasSubstr("tensor c"), HasSubstr(kFirst)));
  write_map({{"a", kSecond}, {"b", kFirst}});
  EXPECT_THAT(refused(), AllOf(HasSubstr("tensor b"), HasSubstr(kFirst)));
}

TEST_F(SafetensorsIndex, ATensorThatTheIndexLacksIsReadAndReported) {
  folder_.write(kSecond, safetensors(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                     R"("extra":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                                     "23"));
  EXPECT_THAT(read(), ElementsAre(AllOf(HasSubstr("extra"), HasSubstr(kSecond))));
  EXPECT_NE(source_.find("extra"), nullptr);
}

TEST_F(SafetensorsIndex, PathsOutsideTheFolderAreRefused) {
  TestFolder outside;
  const auto secret = outside.write("x.safetensors", one_tensor("a", "1"));
  for (const std::string& path :
       {std::string("../x.safetensors"), secret.string(), std::string("sub/../../x.safetensors"), std::string(".."),
        std::string(), std::string("."), std::string("a\0b", 3)}) {
    write_map({{"a", path}});
    EXPECT_FALSE(refused().empty()) << path;
  }
  write_map({{"a", "../x.safetensors"}});
  EXPECT_THAT(refused(), AllOf(HasSubstr("../x.safetensors"), HasSubstr("outside")));
}

TEST_F(SafetensorsIndex, PathsThatStayInsideAreRead) {
  write_map({{"a", "./" + std::string(kFirst)}, {"b", "sub/../" + std::string(kSecond)}});
  std::filesystem::create_directory(folder_.path() / "sub");
  EXPECT_THAT(read(), IsEmpty());
  // As the hub's cache lays models out: the folder holds links to files elsewhere.
  TestFolder blobs;
  const auto blob = blobs.write("0123abcd", one_tensor("a", "7"));
  std::filesystem::remove(folder_.path() / kFirst);
  std::filesystem::create_symlink(blob, folder_.path() / kFirst);
  write_map({{"a", kFirst}, {"b", kSecond}});
  EXPECT_THAT(read(), IsEmpty());
  EXPECT_EQ(static_cast<char>(source_.find("a")->bytes[0]), '7');
}

TEST_F(SafetensorsIndex, ATensorInTwoShardsNamesBoth) {
  folder_.write(kSecond, safetensors(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                     R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                                     "23"));
  EXPECT_THAT(refused(), AllOf(HasSubstr("tensor a"), HasSubstr("duplicate"), HasSubstr(kFirst), HasSubstr(kSecond)));
}

TEST_F(SafetensorsIndex, IndexesOfAnotherFormAreRefused) {
  for (const char* index : {"{}", R"({"weight_map":[]})", R"({"weight_map":{}})", R"({"weight_map":null})"}) {
    write_index(nlohmann::json::parse(index));
    EXPECT_THAT(refused(), HasSubstr("weight_map"));
  }
  write_map({{"a", 5}});
  EXPECT_THAT(refused(), HasSubstr("tensor a"));
  index_ = folder_.write("model.safetensors.index.json", "{\"weight_map\":");
  EXPECT_THAT(refused(), AllOf(HasSubstr("model.safetensors.index.json"), HasSubstr("byte")));
}

TEST_F(SafetensorsIndex, ADamagedShardIsNamed) {
  folder_.write(kSecond, "broken");
  EXPECT_THAT(refused(), HasSubstr(kSecond));
}

}  // namespace
}  // namespace pastkv::formats
