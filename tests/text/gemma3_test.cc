// The tokenizer in a published GGUF file against the model's own tokenizer.json: a vocabulary of scores against one of
// merges.

#include <gtest/gtest.h>

#include <cstdlib>

#include "assets.h"

namespace pastkv::text {
namespace {

TEST(Gemma3, TheGgufFileGivesTheIdsOfTokenizerJson) {
  const std::filesystem::path models = std::getenv("PASTKV_MODELS");
  const Tokenizer rebuilt = Tokenizer::from_gguf(formats::read_gguf(models / "gemma-3-270m-q4_k_m.gguf"));
  const Tokenizer reference = Tokenizer::from_file(assets_folder() / "tokenizers" / "gemma3" / "tokenizer.json");
  expect_equal(rebuilt, reference);
  EXPECT_EQ(rebuilt.encode("Hello", true), reference.encode("Hello", true));
}

}  // namespace
}  // namespace pastkv::text
