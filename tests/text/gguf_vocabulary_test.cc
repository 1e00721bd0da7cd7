// What of a tokenizer.json goes into which key of a GGUF, on tokenizers of a few tokens.
#include "text/gguf_vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tiny.h"

namespace pastkv::text {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

json replace_space() {
  return {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
}

json byte_level(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

json split(const std::string& expression, const std::string& behavior = "Isolated", bool invert = false) {
  return {{"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", behavior}, {"invert", invert}};
}

json steps(json list) {
  return {{"type", "Sequence"}, {"pretokenizers", std::move(list)}};
}

GgufVocabulary vocabulary_of(const json& tokenizer, const json& config = json::object(), std::int64_t rows = 16) {
  TinyFolder tiny(tokenizer, config);
  return gguf_vocabulary(tiny.folder(), rows).value();
}

json scored(const json& parts) {
  return tokenizer_json(bpe({"<unk>", "<0x0A>", "▁", "h", "i", "hi", "▁hi", "<s>", "▁▁"}, {"h i", "▁ hi", "▁ ▁"},
                            {{"byte_fallback", true}, {"unk_token", "<unk>"}}),
                        parts);
}

TEST(GgufVocabulary, OfSentencePieceHasScoresInTheOrderOfMerges) {
  const auto out = vocabulary_of(
      scored({{"added_tokens", {added_token(0, "<unk>"), added_token(7, "<s>"), added_token(8, "▁▁", false)}},
              {"normalizer", replace_space()}}),
      {{"bos_token", "<s>"}, {"unk_token", {{"content", "<unk>"}}}, {"add_bos_token", true}}, 11);
  EXPECT_EQ(out.model, "llama");
  EXPECT_EQ(out.pre, "default");
  EXPECT_THAT(out.tokens, ElementsAre("<unk>", "<0x0A>", "▁", "h", "i", "hi", "▁hi", "<s>", "  ", "[PAD9]", "[PAD10]"));
  EXPECT_THAT(out.types, ElementsAre(2, 6, 1, 1, 1, 1, 1, 3, 4, 5, 5));
  EXPECT_THAT(out.scores, ElementsAre(0, 0, -3, -3, -3, 0, -1, 0, -2, -3, -3));
  EXPECT_THAT(out.merges, IsEmpty());
  EXPECT_FALSE(out.add_space_prefix);
  EXPECT_TRUE(out.add_bos);
  EXPECT_THAT(out.ids, AllOf(Contains(Pair("bos_token_id", 7)), Contains(Pair("unknown_token_id", 0))));
}

TEST(GgufVocabulary, ASpaceBeforeTheTextIsWhatTheFileSays) {
  const json prepend = {{"type", "Sequence"},
                        {"normalizers", {{{"type", "Prepend"}, {"prepend", "▁"}}, replace_space()}}};
  EXPECT_TRUE(vocabulary_of(scored({{"normalizer", prepend}})).add_space_prefix);
  for (const auto& [scheme, wanted] : std::vector<std::pair<std::string, bool>>{{"always", true}, {"never", false}}) {
    const json metaspace = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}, {"split", false}};
    EXPECT_EQ(vocabulary_of(scored({{"pre_tokenizer", metaspace}})).add_space_prefix, wanted) << scheme;
  }
}

TEST(GgufVocabulary, OfBytesIsNamedByHowItCutsText) {
  const std::string llama3 =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const json digits = {{"type", "Digits"}, {"individual_digits", true}};
  const auto pre = [](const json& pre_tokenizer, const json& options = json::object(), const json& normalizer = {}) {
    return vocabulary_of(tokenizer_json(bpe({"a", "b", "ab"}, {"a b"}, options),
                                        {{"pre_tokenizer", pre_tokenizer}, {"normalizer", normalizer}}));
  };
  EXPECT_EQ(pre(byte_level(true)).pre, "gpt-2");
  EXPECT_EQ(pre(byte_level(true), json::object(), {{"type", "NFC"}}).pre, "mpt");
  EXPECT_EQ(pre(steps({digits, byte_level(true)})).pre, "starcoder");
  EXPECT_EQ(pre(steps({split(llama3), byte_level(false)}), {{"ignore_merges", true}}).pre, "llama3");
  EXPECT_EQ(pre(steps({split(llama3, "Removed", true), byte_level(false)}), {{"ignore_merges", true}}).pre, "llama3");
  EXPECT_EQ(pre(steps({split(llama3), byte_level(false)})).pre, "dbrx");
  const auto out = pre(byte_level(true));
  EXPECT_EQ(out.model, "gpt2");
  EXPECT_THAT(out.merges, ElementsAre("a b"));
  EXPECT_THAT(out.scores, IsEmpty());
}

TEST(GgufVocabulary, MergesAsPairsAreReadToo) {
  json tokenizer = tokenizer_json(bpe({"a", "b", "ab"}), {{"pre_tokenizer", byte_level(true)}});
  tokenizer["model"]["merges"] = json::array({json::array({"a", "b"})});
  EXPECT_THAT(vocabulary_of(tokenizer).merges, ElementsAre("a b"));
}

TEST(GgufVocabulary, WhatReadersWouldDoOtherwiseIsRefusedByName) {
  const auto refused = [](const json& tokenizer, std::int64_t rows = 16) {
    return error_of([&] { vocabulary_of(tokenizer, json::object(), rows); });
  };
  const json model = bpe({"a", "b", "ab"}, {"a b"});
  EXPECT_THAT(refused(tokenizer_json(model, {{"pre_tokenizer", steps({split("[a-c]+"), byte_level(false)})}})),
              AllOf(HasSubstr("tokenizer.json"), HasSubstr("pre_tokenizer")));
  EXPECT_THAT(refused(tokenizer_json(model, {{"pre_tokenizer", {{"type", "Whitespace"}}}})),
              HasSubstr("pre_tokenizer"));
  EXPECT_THAT(refused(scored(json::object())), HasSubstr("normalizer"));
  EXPECT_THAT(refused(tokenizer_json({{"type", "WordLevel"}, {"vocab", {{"a", 0}}}, {"unk_token", "a"}})),
              HasSubstr("WordLevel"));
  EXPECT_THAT(refused(tokenizer_json(model, {{"pre_tokenizer", byte_level(true)}}), 2),
              AllOf(HasSubstr("id 2"), HasSubstr("2 rows")));
}

TEST(GgufVocabulary, AFolderWithoutATokenizerHasNone) {
  EXPECT_FALSE(gguf_vocabulary(formats::HfFolder{}, 16));
}

}  // namespace
}  // namespace pastkv::text
