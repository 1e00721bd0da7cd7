// Tokenizers rebuilt from GGUF metadata against the ids that come with llama.cpp's vocabularies, and against the
// models' own tokenizer.json.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "assets.h"
#include "text/tokenizer.h"

namespace pastkv::text {
namespace {

std::filesystem::path vocabulary(const std::string& name) {
  return assets_folder() / "llama.cpp" / "models" / ("ggml-vocab-" + name + ".gguf");
}

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

// Texts that meet every part of a pre-tokenizer, and random strings of characters that matter to one.
std::vector<std::string> texts() {
  std::vector<std::string> all;
  for (const Vector& vector : read_vectors(vocabulary("llama-bpe"))) all.push_back(vector.text);
  const std::vector<std::string> pieces = {
      " ",         "  ",  "\n",     "\r\n", "\t", "a", "B",   "the",  " The",
      "'s",        "'LL", "9",      "123",  ".",  ",", "!?",  "_",    "é",
      "e\xCC\x81", "ß",   "你好",   "の",   "한", "ا", "٣",   "😸",   "👨‍👩‍👧",
      "\u00a0",    "▁",   "<",      "|",    ">",  "/", "ing", "tion", "http",
      "ſ",         "İ",   "\u200b", "\x01"};
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (std::size_t n = random() % 24; n > 0; --n) text += pieces[random() % pieces.size()];
    all.push_back(std::move(text));
  }
  return all;
}

void expect_equal(const Tokenizer& rebuilt, const Tokenizer& reference) {
  int differ = 0;
  for (const std::string& text : texts()) {
    const auto ids = rebuilt.encode(text, false);
    const auto wanted = reference.encode(text, false);
    if (ids != wanted && ++differ <= 5) {
      ADD_FAILURE() << testing::PrintToString(text) << "\n ids    " << testing::PrintToString(ids) << "\n wanted "
                    << testing::PrintToString(wanted);
    }
    EXPECT_EQ(rebuilt.decode(ids, false), reference.decode(wanted, false)) << text;
  }
  EXPECT_EQ(differ, 0);
}

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
