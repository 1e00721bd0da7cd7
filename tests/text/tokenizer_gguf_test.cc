// Tokenizers from GGUF metadata: what is refused, and who decides about BOS and EOS.

#include <limits>

#include "text/pre_tokenizers.h"
#include "tiny.h"

namespace pastkv::text {
namespace {

formats::GgufFile metadata(const std::string& model, const std::vector<std::string_view>& tokens) {
  formats::GgufFile file;
  file.path = "model.gguf";
  file.metadata["tokenizer.ggml.model"] = model;
  file.metadata["tokenizer.ggml.tokens"] = tokens;
  return file;
}

// <unk>, <s>, </s>, ▁, a, b, ab, ▁ab, and the byte token for a line end.
formats::GgufFile scored() {
  formats::GgufFile file = metadata("llama", {"<unk>", "<s>", "</s>", "▁", "a", "b", "ab", "▁ab", "<0x0A>"});
  file.metadata["tokenizer.ggml.scores"] = std::vector<double>{0, 0, 0, -4, -5, -6, -1, -2, 0};
  file.metadata["tokenizer.ggml.token_type"] = std::vector<std::int64_t>{2, 3, 3, 1, 1, 1, 1, 1, 6};
  file.metadata["tokenizer.ggml.bos_token_id"] = std::uint64_t{1};
  file.metadata["tokenizer.ggml.eos_token_id"] = std::uint64_t{2};
  return file;
}

formats::GgufFile merged() {
  formats::GgufFile file = metadata("gpt2", {"a", "b", "Ġ", "ab", "Ġab", "<|im_end|>"});
  file.metadata["tokenizer.ggml.pre"] = std::string("smollm");
  file.metadata["tokenizer.ggml.merges"] = std::vector<std::string_view>{"a b", "Ġ ab"};
  file.metadata["tokenizer.ggml.token_type"] = std::vector<std::int64_t>{1, 1, 1, 1, 1, 3};
  return file;
}

TEST(GgufTokenizer, MergesByScore) {
  const Tokenizer tokenizer = Tokenizer::from_gguf(scored());
  EXPECT_EQ(tokenizer.encode("ab", false), (Ids{7}));
  EXPECT_EQ(tokenizer.encode("ab", true), (Ids{1, 7}));  // this kind adds a BOS unless told otherwise
  EXPECT_EQ(tokenizer.encode("ab\n", false), (Ids{7, 8}));
  EXPECT_EQ(tokenizer.encode("<s>ab", false), (Ids{1, 7}));
  EXPECT_EQ(tokenizer.encode("zzb", false), (Ids{3, 0, 5}));  // unknown characters fuse
  EXPECT_EQ(tokenizer.decode(Ids{1, 7, 8, 7}, true), "ab\n ab");
  EXPECT_EQ(tokenizer.size(), 9);
  formats::GgufFile silent = scored();
  silent.metadata["tokenizer.ggml.add_bos_token"] = false;
  silent.metadata["tokenizer.ggml.add_eos_token"] = true;
  silent.metadata["tokenizer.ggml.add_space_prefix"] = false;
  EXPECT_EQ(Tokenizer::from_gguf(silent).encode("ab", true), (Ids{6, 2}));
}

// Converters write a user-defined run of spaces with real spaces and a low score; the model's own tokenizer.json has it
// as the first of merges.
TEST(GgufTokenizer, RunsOfSpacesMergeFirst) {
  formats::GgufFile file = metadata("llama", {"<unk>", "▁", "a", "▁a", "  "});
  file.metadata["tokenizer.ggml.scores"] = std::vector<double>{0, -4, -5, -1, -1000};
  file.metadata["tokenizer.ggml.token_type"] = std::vector<std::int64_t>{2, 1, 1, 1, 4};
  file.metadata["tokenizer.ggml.add_space_prefix"] = false;
  const Tokenizer tokenizer = Tokenizer::from_gguf(file);
  EXPECT_EQ(tokenizer.encode(" a", false), (Ids{3}));
  EXPECT_EQ(tokenizer.encode("  a", false), (Ids{4, 2}));
  EXPECT_EQ(tokenizer.encode("   a", false), (Ids{4, 3}));
  EXPECT_EQ(tokenizer.encode("▁ a", false), (Ids{4, 2}));
  EXPECT_EQ(tokenizer.decode(Ids{4, 3}, false), "   a");
}

TEST(GgufTokenizer, MergesByRankAndKnowsEnds) {
  const Tokenizer tokenizer = Tokenizer::from_gguf(merged());
  EXPECT_EQ(tokenizer.encode("ab ab", true), (Ids{3, 4}));
  EXPECT_EQ(tokenizer.encode("ab<|im_end|>", false), (Ids{3, 5}));
  EXPECT_EQ(tokenizer.eos_ids(), (Ids{5}));
  EXPECT_EQ(tokenizer.decode(Ids{3, 4, 5, 99, -1}, true), "ab ab");
}

TEST(GgufTokenizer, EveryKnownPreTokenizerWorks) {
  for (const PreTokenizer& entry : pre_tokenizers()) {
    for (const std::string_view name : entry.names) {
      formats::GgufFile file = merged();
      file.metadata["tokenizer.ggml.pre"] = std::string(name);
      EXPECT_NO_THROW(Tokenizer::from_gguf(file).encode("It's 12345 é 你好\n\n  x", false)) << name;
    }
  }
}

TEST(GgufTokenizer, HostileMetadataIsRefusedInOneLine) {
  struct Case {
    const char* key;
    formats::GgufValue value;
    const char* said;
    bool scores = true;
  };
  using Strings = std::vector<std::string_view>;
  const std::vector<Case> cases = {
      {"tokenizer.ggml.model", std::string("rwkv"), "known are: bert"},
      {"tokenizer.ggml.pre", std::string("new-one"), "known are: a.x-4.0", false},
      {"tokenizer.ggml.scores", std::vector<double>{1, 2}, "has 2 elements"},
      {"tokenizer.ggml.scores", std::string("x"), "tokenizer.ggml.scores"},
      {"tokenizer.ggml.token_type", std::vector<std::int64_t>{1}, "has 1 elements"},
      {"tokenizer.ggml.tokens", Strings{}, "tokenizer.ggml.tokens"},
      {"tokenizer.ggml.tokens", Strings{"\xFF", "s", "/s", "_", "a", "b", "ab", "_ab", "x"}, "token 0 is not UTF-8"},
      {"tokenizer.ggml.merges", Strings{"a \xFF"}, "merge 0 is not UTF-8", false},
      {"tokenizer.ggml.bos_token_id", std::uint64_t{9}, "is 9, but the vocabulary has 9 tokens"},
      {"tokenizer.ggml.bos_token_id", std::int64_t{-1}, "tokenizer.ggml.bos_token_id"},
      {"tokenizer.ggml.eos_token_id", std::uint64_t{1} << 63, "tokenizer.ggml.eos_token_id"},
      {"tokenizer.ggml.merges", Strings{"a x"}, "\"x\"", false},
      {"tokenizer.ggml.merges", Strings{"ab"}, "no space", false},
      {"tokenizer.ggml.merges", Strings{""}, "no space", false},
      {"tokenizer.huggingface.json", std::string("{"), "model.gguf"}};
  for (const Case& c : cases) {
    formats::GgufFile file = c.scores ? scored() : merged();
    file.metadata[c.key] = c.value;
    const std::string error = error_of([&] { Tokenizer::from_gguf(file); });
    EXPECT_NE(error.find("model.gguf"), std::string::npos) << error;
    EXPECT_NE(error.find(c.said), std::string::npos) << c.key << ": " << error;
  }
}

TEST(GgufTokenizer, ACharacterMapCannotAskForMemory) {
  formats::GgufFile file = scored();
  file.metadata["tokenizer.ggml.model"] = std::string("t5");
  file.metadata["tokenizer.ggml.precompiled_charsmap"] = std::vector<std::int64_t>{255, 255, 255, 127, 0, 0};
  const std::string error = error_of([&] { Tokenizer::from_gguf(file); });
  EXPECT_NE(error.find("2147483647 bytes"), std::string::npos) << error;
}

TEST(GgufTokenizer, OddScoresAndRepeatedTokensDoNoHarm) {
  formats::GgufFile file = scored();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  file.metadata["tokenizer.ggml.scores"] = std::vector<double>{nan, inf, -inf, 1e300, -0.0, 0.0, nan, inf, 0};
  file.metadata["tokenizer.ggml.tokens"] =
      std::vector<std::string_view>{"", "", "a", "a", "aa", "aaa", "aa", "", "<0x0A>"};
  const Tokenizer tokenizer = Tokenizer::from_gguf(file);
  EXPECT_FALSE(tokenizer.encode("aaaa\n", false).empty());
}

TEST(GgufTemplate, ComesWithTheFile) {
  formats::GgufFile file = scored();
  EXPECT_FALSE(chat_template(file).has_value());
  file.metadata["tokenizer.chat_template"] = std::string("{{ bos_token }}x");
  const auto chat = chat_template(file);
  ASSERT_TRUE(chat.has_value());
  EXPECT_EQ(render(*chat, nlohmann::ordered_json::array(), {}), "<s>x");
  EXPECT_EQ(chat->origin, "model.gguf: tokenizer.chat_template");
}

}  // namespace
}  // namespace pastkv::text
