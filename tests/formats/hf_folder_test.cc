#include "formats/hf_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "golden.h"

namespace pastkv::formats {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kOneTensor = safetensors(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "1");

class HfFolderTest : public testing::Test {
 protected:
  void SetUp() override { folder_.write("config.json", R"({"model_type":"llama"})"); }
  std::string refused() const {
    return refusal([&] { read_hf_folder(folder_.path()); });
  }

  TestFolder folder_;
};

TEST_F(HfFolderTest, AFolderWithShardsIsReadWhole) {
  const HfFolder folder = read_hf_folder(golden("sharded"));
  EXPECT_EQ(folder.config["num_hidden_layers"], 6);
  EXPECT_EQ(folder.tensors.tensors().size(), 6U);
  EXPECT_EQ(folder.tensors.total_bytes(), 192U);
  EXPECT_EQ(folder.file_bytes, 3U * 264U);
  EXPECT_TRUE(folder.generation_config.is_null());
  EXPECT_TRUE(folder.tokenizer_config.is_null());
  EXPECT_FALSE(folder.tokenizer);
  EXPECT_FALSE(folder.chat_template);
}

TEST_F(HfFolderTest, SideFilesAreFound) {
  folder_.write("model.safetensors", kOneTensor);
  folder_.write("generation_config.json", R"({"eos_token_id":[1,2]})");
  folder_.write("tokenizer_config.json", R"({"bos_token":"<s>"})");
  folder_.write("tokenizer.json", "{}");
  folder_.write("chat_template.jinja", "{{ messages }}\n");
  const HfFolder folder = read_hf_folder(folder_.path());
  EXPECT_EQ(folder.generation_config["eos_token_id"][1], 2);
  EXPECT_EQ(folder.tokenizer_config["bos_token"], "<s>");
  EXPECT_EQ(folder.tokenizer, folder_.path() / "tokenizer.json");
  EXPECT_EQ(folder.chat_template, "{{ messages }}\n");
  EXPECT_EQ(folder.file_bytes, kOneTensor.size());
}

TEST_F(HfFolderTest, TheModelsFileIsPreferredToOthersWhenThereIsNoIndex) {
  folder_.write("model.safetensors", kOneTensor);
  folder_.write("adapter.safetensors", "broken");
  EXPECT_NE(read_hf_folder(folder_.path()).tensors.find("a"), nullptr);
}

TEST_F(HfFolderTest, AnOnlyFileOfAnyNameIsTheModel) {
  folder_.write("weights.safetensors", kOneTensor);
  EXPECT_NE(read_hf_folder(folder_.path()).tensors.find("a"), nullptr);
}

TEST_F(HfFolderTest, SeveralFilesWithoutAnIndexAreNotGuessedAt) {
  folder_.write("model-00001-of-00002.safetensors", kOneTensor);
  folder_.write("model-00002-of-00002.safetensors", kOneTensor);
  EXPECT_THAT(refused(), AllOf(HasSubstr("2 safetensors files"), HasSubstr("model-00002-of-00002.safetensors"),
                               HasSubstr("model.safetensors.index.json")));
}

TEST_F(HfFolderTest, FoldersWithoutReadableWeightsSayWhatToDo) {
  EXPECT_THAT(refused(), HasSubstr("holds no weights"));
  folder_.write("model.gguf", "");
  EXPECT_THAT(refused(), AllOf(HasSubstr("model.gguf"), HasSubstr(".gguf file itself")));
  folder_.write("pytorch_model.bin", "");
  EXPECT_THAT(refused(), AllOf(HasSubstr("pytorch_model.bin"), HasSubstr("safe_serialization=True")));
}

TEST_F(HfFolderTest, WhatIsNoModelFolderIsRefused) {
  EXPECT_THAT(refusal([&] { read_hf_folder(folder_.path() / "absent"); }), HasSubstr("is no folder"));
  EXPECT_THAT(refusal([&] { read_hf_folder(folder_.path() / "config.json"); }), HasSubstr("is no folder"));
  std::filesystem::remove(folder_.path() / "config.json");
  EXPECT_THAT(refused(), HasSubstr("config.json"));
}

TEST_F(HfFolderTest, DamagedJsonFilesAreNamed) {
  folder_.write("model.safetensors", kOneTensor);
  for (const char* name : {"config.json", "generation_config.json", "tokenizer_config.json"}) {
    folder_.write(name, "{\"a\": tru}");
    EXPECT_THAT(refused(), AllOf(HasSubstr(name), HasSubstr("byte 10"), HasSubstr("not valid JSON"))) << name;
    folder_.write(name, "[1]");
    EXPECT_THAT(refused(), AllOf(HasSubstr(name), HasSubstr("array, not an object")));
    folder_.write(name, "{}");
  }
}

}  // namespace
}  // namespace pastkv::formats
