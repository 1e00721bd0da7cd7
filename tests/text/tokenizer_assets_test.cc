// Tokenizers rebuilt from GGUF metadata against the ids that come with llama.cpp's vocabularies, and against the
// models' own tokenizer.json.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "assets.h"
#include "text/tokenizer.h"

namespace pastkv::text {
namespace {

class Vectors : public testing::TestWithParam<const char*> {};

TEST_P(Vectors, IdsAreEqual) {
  const std::filesystem::path file = vocabulary(GetParam());
  const Tokenizer tokenizer = Tokenizer::from_gguf(formats::read_gguf(file));
  const std::vector<Vector> vectors = read_vectors(file);
  ASSERT_GT(vectors.size(), 30u);
  for (const Vector& vector : vectors) {
    EXPECT_THAT(tokenizer.encode(vector.text, false), testing::ContainerEq(vector.ids)) << vector.text;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Vectors,
                         testing::Values("bert-bge", "command-r", "deepseek-coder", "deepseek-llm", "falcon", "gemma-4",
                                         "gpt-2", "llama-bpe", "llama-spm", "mpt", "phi-3", "qwen2", "qwen35", "refact",
                                         "starcoder"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

struct Pair {
  const char* vocabulary;
  const char* family;
};

class Reference : public testing::TestWithParam<Pair> {};

TEST_P(Reference, IdsAndTextAreEqual) {
  const Tokenizer rebuilt = Tokenizer::from_gguf(formats::read_gguf(vocabulary(GetParam().vocabulary)));
  const Tokenizer reference =
      Tokenizer::from_file(assets_folder() / "tokenizers" / GetParam().family / "tokenizer.json");
  expect_equal(rebuilt, reference);
}

INSTANTIATE_TEST_SUITE_P(All, Reference, testing::Values(Pair{"llama-bpe", "llama3"}, Pair{"qwen2", "qwen3"}),
                         [](const auto& parameter) { return std::string(parameter.param.family); });

}  // namespace
}  // namespace pastkv::text
