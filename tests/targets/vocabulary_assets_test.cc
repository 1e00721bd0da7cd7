// Published vocabularies: from tokenizer.json to the keys of a GGUF and back, with the same ids at each station.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "formats/gguf_writer.h"
#include "targets/gguf/metadata.h"
#include "text/assets.h"
#include "text/tokenizer_json.h"

namespace pastkv::targets {
namespace {

namespace fs = std::filesystem;
using text::Tokenizer;

struct Published {
  const char* family;
  const char* model;  // tokenizer.ggml.model
  const char* pre;    // and pre
};

class Vocabulary : public testing::TestWithParam<Published> {
 protected:
  Vocabulary() {
    std::string name = testing::TempDir() + "pastkv_vocabulary_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~Vocabulary() override { fs::remove_all(folder_); }

  fs::path folder_;
};

TEST_P(Vocabulary, GoesToGgufAndBackWithTheSameIds) {
  const fs::path source = text::assets_folder() / "tokenizers" / GetParam().family;
  const Tokenizer reference = Tokenizer::from_file(source / "tokenizer.json");
  constexpr std::int64_t kUnusedRows = 5;
  models::Model model;
  model.config.vocab = reference.size() + kUnusedRows;
  formats::HfFolder folder;
  folder.path = source;
  folder.tokenizer = source / "tokenizer.json";
  folder.tokenizer_config = formats::read_json_object(source / "tokenizer_config.json");
  model.source = std::move(folder);
  GgufDescription description;
  add_vocabulary(model, description);
  formats::GgufWriter writer(folder_ / "v.gguf", false, description.metadata, {}, 0);
  writer.commit();

  const formats::GgufFile file = formats::read_gguf(folder_ / "v.gguf");
  EXPECT_EQ(file.require_string("tokenizer.ggml.model"), GetParam().model);
  EXPECT_EQ(file.require_string("tokenizer.ggml.pre"), GetParam().pre);
  const auto& tokens = *file.find_strings("tokenizer.ggml.tokens");
  EXPECT_EQ(tokens.size(), static_cast<std::size_t>(model.config.vocab));
  EXPECT_EQ(tokens.back(), "[PAD" + std::to_string(model.config.vocab - 1) + "]");
  const auto& opened = std::get<formats::HfFolder>(model.source);
  const Tokenizer of_folder = Tokenizer::from_hf(opened);
  const Tokenizer of_gguf = Tokenizer::from_gguf(file);
  text::expect_equal(of_gguf, reference);
  EXPECT_EQ(of_gguf.encode("Hello", true), of_folder.encode("Hello", true));

  std::ofstream(folder_ / "tokenizer.json", std::ios::binary) << text::tokenizer_json(file);
  const Tokenizer back = Tokenizer::from_file(folder_ / "tokenizer.json");
  text::expect_equal(back, reference);
  EXPECT_EQ(back.encode("Hello", true), of_folder.encode("Hello", true));
}

INSTANTIATE_TEST_SUITE_P(Published, Vocabulary,
                         testing::Values(Published{"llama2", "llama", "default"}, Published{"llama3", "gpt2", "llama3"},
                                         Published{"qwen3", "gpt2", "qwen2"}, Published{"gemma3", "llama", "default"},
                                         Published{"deepseek_v3", "gpt2", "deepseek-v3"},
                                         Published{"gptoss", "gpt2", "granite-embed-multi-97m"}),
                         [](const auto& tested) { return std::string(tested.param.family); });

}  // namespace
}  // namespace pastkv::targets
