// A tokenizer from the metadata of a GGUF file. The keys are those of ggml's docs/gguf.md; what they leave unsaid is
// taken from how the models' own tokenizer.json files are made.

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/pre_tokenizers.h"
#include "text/tokenizer.h"
#include "text/tokenizer_parts.h"
#include "text/vocabulary.h"

namespace pastkv::text {
namespace {

using nlohmann::json;

enum TokenType : std::int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

// Tokens that end a turn or an answer, for files that do not name them by tokenizer.ggml.eot_token_id and the like.
constexpr std::array<std::string_view, 12> kEndTexts = {"<|eot_id|>", "<|im_end|>",    "<|end|>", "<|return|>",
                                                        "<|call|>",   "<end_of_turn>", "<turn|>", "<|eom_id|>",
                                                        "<EOT>",      "_<EOT>",        "[EOT]",   "<end_of_utterance>"};

void read_flags(const VocabularyKeys& data, Vocabulary& vocabulary) {
  vocabulary.flags.assign(data.tokens.size(), 0);
  const auto types = data.file.find_ints(ggml_key("token_type"));
  if (!types) return;
  if (types->size() != data.tokens.size()) {
    data.fail("token_type", "has " + std::to_string(types->size()) + " elements, but there are " +
                                std::to_string(data.tokens.size()) + " tokens");
  }
  for (std::size_t id = 0; id < types->size(); ++id) {
    std::uint8_t& flags = vocabulary.flags[id];
    switch ((*types)[id]) {
      case kControl:
      case kUnknown:
        flags = PASTKV_TOKEN_ADDED | PASTKV_TOKEN_SPECIAL;
        break;
      case kUserDefined:
        flags = PASTKV_TOKEN_ADDED;
        break;
      case kByte:
        flags = PASTKV_TOKEN_NO_MERGE;
        break;
      default:
        break;
    }
  }
}

void read_scores(const VocabularyKeys& data, Vocabulary& vocabulary) {
  const auto scores = data.file.find_floats(ggml_key("scores"));
  if (!scores) data.fail("scores", "is missing", "convert the model again");
  if (scores->size() != data.tokens.size()) {
    data.fail("scores", "has " + std::to_string(scores->size()) + " elements, but there are " +
                            std::to_string(data.tokens.size()) + " tokens");
  }
  vocabulary.scores.reserve(scores->size());
  for (const double score : *scores) vocabulary.scores.push_back(static_cast<float>(score));
}

void read_merges(const VocabularyKeys& data, Vocabulary& vocabulary) {
  const std::vector<std::string_view>* merges = data.file.find_strings(ggml_key("merges"));
  if (merges == nullptr) data.fail("merges", "is missing", "convert the model again");
  vocabulary.merges.reserve(merges->size());
  for (const std::string_view merge : *merges) vocabulary.merges.push_back(view_of(merge));
}

json replace_part(const char* from, const char* to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

json sequence(const char* list, json items) {
  return {{"type", "Sequence"}, {list, std::move(items)}};
}

// Spaces as U+2581, characters outside the vocabulary as bytes.
json sentencepiece_decoder(bool space_prefix) {
  json decoders = json::array({replace_part(kSpace, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}});
  if (space_prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return sequence("decoders", std::move(decoders));
}

// Phi-3's special tokens take the white space after them, which the format cannot say.
void strip_after_specials(const VocabularyKeys& data, Vocabulary& vocabulary) {
  std::string name = data.file.find_string("general.name").value_or("");
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name.find("phi-3") == std::string::npos && name.find("phi3") == std::string::npos) return;
  constexpr std::array<std::string_view, 3> kAsTheyAre = {"<unk>", "<s>", "<|endoftext|>"};
  for (std::size_t id = 0; id < data.tokens.size(); ++id) {
    if ((vocabulary.flags[id] & PASTKV_TOKEN_SPECIAL) == 0) continue;
    if (std::find(kAsTheyAre.begin(), kAsTheyAre.end(), data.tokens[id]) != kAsTheyAre.end()) continue;
    vocabulary.flags[id] |= PASTKV_TOKEN_RSTRIP;
  }
}

// Converters change user-defined tokens: they write their spaces as a text has them, and a score of their own.
// SentencePiece has U+2581 for each space and the score 0, and merges can make such a token too.
void restore_user_defined(const VocabularyKeys& data, Vocabulary& vocabulary) {
  std::vector<std::size_t> spaced;
  for (std::size_t id = 0; id < data.tokens.size(); ++id) {
    if (vocabulary.flags[id] != PASTKV_TOKEN_ADDED) continue;
    vocabulary.scores[id] = 0;
    if (data.tokens[id].find(' ') != std::string_view::npos) spaced.push_back(id);
  }
  vocabulary.changed.reserve(spaced.size());
  for (const std::size_t id : spaced) {
    std::string& token = vocabulary.changed.emplace_back();
    for (const char byte : data.tokens[id]) token += byte == ' ' ? std::string(kSpace) : std::string(1, byte);
    vocabulary.tokens[id] = view_of(token);
  }
}

void read_scored_bpe(const VocabularyKeys& data, Vocabulary& vocabulary) {
  read_scores(data, vocabulary);
  restore_user_defined(data, vocabulary);
  const bool space_prefix = data.file.find_bool(ggml_key("add_space_prefix")).value_or(true);
  json normalizers = json::array();
  if (space_prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", kSpace}});
  normalizers.push_back(replace_part(" ", kSpace));
  const auto unknown = data.token_id("unknown_token_id");
  const std::string unknown_text = data.text(unknown.value_or(0));
  vocabulary.parts = {{"model",
                       {{"type", "ScoredBPE"},
                        {"unk_token", unknown_text.empty() ? json() : json(unknown_text)},
                        {"byte_fallback", true},
                        {"fuse_unk", true}}},
                      {"normalizer", sequence("normalizers", std::move(normalizers))},
                      {"decoder", sentencepiece_decoder(space_prefix)}};
  vocabulary.add_bos = true;
  strip_after_specials(data, vocabulary);
}

void read_merged_bpe(const VocabularyKeys& data, Vocabulary& vocabulary, std::string_view pre) {
  const PreTokenizer* pieces = find_pre_tokenizer(pre);
  if (pieces == nullptr) {
    data.fail("pre", "\"" + std::string(pre) + "\" is not known", "known are: " + known_pre_tokenizers());
  }
  read_merges(data, vocabulary);
  json steps = json::array();
  for (const std::string_view split : pieces->splits) {
    steps.push_back({{"type", "Split"}, {"pattern", {{"Regex", split}}}, {"behavior", "Isolated"}, {"invert", false}});
  }
  json model = {{"type", "BPE"}, {"ignore_merges", pieces->ignore_merges}};
  const json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  if (pieces->byte_level) {
    steps.push_back(byte_level);
    vocabulary.parts = {{"normalizer", pieces->nfc ? json({{"type", "NFC"}}) : json()}, {"decoder", byte_level}};
  } else {
    model["byte_fallback"] = true;
    model["fuse_unk"] = true;
    if (const auto unknown = data.token_id("unknown_token_id")) model["unk_token"] = data.text(unknown);
    vocabulary.parts = {{"normalizer", replace_part(" ", kSpace)}, {"decoder", sentencepiece_decoder(false)}};
  }
  vocabulary.parts["model"] = std::move(model);
  vocabulary.parts["pre_tokenizer"] = sequence("pretokenizers", std::move(steps));
  vocabulary.add_bos = pieces->add_bos;
}

// BERT's WordPiece. The file marks the start of a word (U+2581); WordPiece marks the rest of one (##).
void read_word_piece(const VocabularyKeys& data, Vocabulary& vocabulary) {
  vocabulary.changed.reserve(data.tokens.size());
  for (std::size_t id = 0; id < data.tokens.size(); ++id) {
    const std::string_view token = data.tokens[id];
    if ((vocabulary.flags[id] & PASTKV_TOKEN_ADDED) != 0 || (token.starts_with('[') && token.ends_with(']'))) continue;
    vocabulary.changed.push_back(token.starts_with(kSpace) ? std::string(token.substr(3)) : "##" + std::string(token));
    vocabulary.tokens[id] = view_of(vocabulary.changed.back());
  }
  const auto named = [&data](const char* name, std::int32_t usual) {
    const std::int32_t id = data.token_id(name).value_or(usual);
    if (static_cast<std::size_t>(id) >= data.tokens.size()) data.fail(name, "is missing");
    return std::pair(std::string(data.tokens[id]), id);
  };
  const auto [cls, cls_id] = named("cls_token_id", 101);
  const auto [sep, sep_id] = named("seperator_token_id", 102);
  const bool lowercase = data.file.find_bool(ggml_key("normalizer.lowercase")).value_or(true);
  vocabulary.parts = {
      {"model", {{"type", "WordPiece"}, {"unk_token", named("unknown_token_id", 100).first}}},
      {"normalizer",
       {{"type", "BertNormalizer"},
        {"clean_text", true},
        {"handle_chinese_chars", true},
        {"strip_accents", data.file.find_bool(ggml_key("normalizer.strip_accents")).value_or(lowercase)},
        {"lowercase", lowercase}}},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"post_processor", {{"type", "BertProcessing"}, {"sep", {sep, sep_id}}, {"cls", {cls, cls_id}}}},
      {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}}};
}

std::string base64(const std::vector<std::int64_t>& bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      group = group << 8 | (at + i < bytes.size() ? static_cast<std::uint32_t>(bytes[at + i] & 0xFF) : 0);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      out += at + i <= bytes.size() ? kDigits[group >> (18 - 6 * i) & 63] : '=';
    }
  }
  return out;
}

// SentencePiece's unigram model (T5 and its kin).
void read_unigram(const VocabularyKeys& data, Vocabulary& vocabulary) {
  read_scores(data, vocabulary);
  const bool space_prefix = data.file.find_bool(ggml_key("add_space_prefix")).value_or(true);
  json normalizers = json::array();
  if (const auto charsmap = data.file.find_ints(ggml_key("precompiled_charsmap")); charsmap && !charsmap->empty()) {
    normalizers.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", base64(*charsmap)}});
  }
  if (data.file.find_bool(ggml_key("remove_extra_whitespaces")).value_or(false)) {
    normalizers.push_back({{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}});
    normalizers.push_back({{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", kSpace}});
  }
  const json metaspace = {{"type", "Metaspace"},
                          {"replacement", kSpace},
                          {"prepend_scheme", space_prefix ? "always" : "never"},
                          {"split", true}};
  vocabulary.parts = {{"model", {{"type", "Unigram"}, {"unk_id", data.token_id("unknown_token_id").value_or(2)}}},
                      {"pre_tokenizer", metaspace},
                      {"decoder", metaspace}};
  if (!normalizers.empty()) vocabulary.parts["normalizer"] = sequence("normalizers", std::move(normalizers));
  vocabulary.add_eos = true;
}

}  // namespace

Vocabulary read_vocabulary(const VocabularyKeys& data) {
  Vocabulary vocabulary;
  vocabulary.tokens.reserve(data.tokens.size());
  for (const std::string_view token : data.tokens) vocabulary.tokens.push_back(view_of(token));
  read_flags(data, vocabulary);
  const std::string model = data.file.require_string(ggml_key("model"));
  if (model == "llama") {
    read_scored_bpe(data, vocabulary);
  } else if (model == "gpt2") {
    read_merged_bpe(data, vocabulary, data.file.find_string(ggml_key("pre")).value_or("default"));
  } else if (model == "gemma4") {
    read_merged_bpe(data, vocabulary, "gemma4");
  } else if (model == "bert") {
    read_word_piece(data, vocabulary);
  } else if (model == "t5") {
    read_unigram(data, vocabulary);
  } else {
    data.fail("model", "\"" + model + "\" is not known", "known are: bert, gemma4, gpt2, llama, t5");
  }
  return vocabulary;
}

namespace {

std::vector<std::int32_t> end_ids(const VocabularyKeys& data, const Vocabulary& vocabulary) {
  std::vector<std::int32_t> ids;
  for (const char* name : {"eos_token_id", "eot_token_id", "eom_token_id"}) {
    if (const auto id = data.token_id(name)) ids.push_back(*id);
  }
  for (std::size_t id = 0; id < data.tokens.size(); ++id) {
    if ((vocabulary.flags[id] & PASTKV_TOKEN_ADDED) == 0) continue;
    const bool ends = std::find(kEndTexts.begin(), kEndTexts.end(), data.tokens[id]) != kEndTexts.end();
    if (ends && std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(static_cast<std::int32_t>(id));
  }
  std::vector<std::int32_t> unique;
  for (const std::int32_t id : ids) {
    if (std::find(unique.begin(), unique.end(), id) == unique.end()) unique.push_back(id);
  }
  return unique;
}

}  // namespace

VocabularyKeys vocabulary_keys(const formats::GgufFile& file) {
  const std::vector<std::string_view>* tokens = file.find_strings(ggml_key("tokens"));
  static const std::vector<std::string_view> kNone;
  const VocabularyKeys keys{file, tokens != nullptr ? *tokens : kNone};
  if (keys.tokens.empty()) keys.fail("tokens", "is missing", "convert the model with its vocabulary");
  return keys;
}

// BOS and EOS: the file's own flags, and where it has none, what its kind of tokenizer does.
void Tokenizer::Parts::decide_specials(const formats::GgufFile& file, bool usual_bos, bool usual_eos) {
  const auto asked = [&file](const char* name, bool usual) { return file.find_bool(ggml_key(name)).value_or(usual); };
  const bool add_bos = asked("add_bos_token", usual_bos);
  const bool named = file.metadata.contains(ggml_key("add_bos_token"));
  bos_source = !named ? "the default of this kind of tokenizer" : ggml_key("add_bos_token");
  if (add_bos) prefix = bos;
  if (asked("add_eos_token", usual_eos) && !eos.empty()) suffix = eos.front();
}

Tokenizer Tokenizer::from_gguf(const formats::GgufFile& file) {
  const std::string origin = file.path.string();
  const VocabularyKeys data = vocabulary_keys(file);
  Vocabulary vocabulary = read_vocabulary(data);
  std::unique_ptr<Parts> parts;
  if (const auto whole = file.find_string("tokenizer.huggingface.json")) {
    parts = std::make_unique<Parts>(tokenizer_from_json(*whole, origin), origin);
  } else {
    // A token that is not UTF-8 is named by the Rust side; here it must only not throw.
    const std::string parts_json = vocabulary.parts.dump(-1, ' ', false, json::error_handler_t::replace);
    const PastkvVocabulary raw{.tokens = vocabulary.tokens.data(),
                               .flags = vocabulary.flags.data(),
                               .scores = vocabulary.scores.empty() ? nullptr : vocabulary.scores.data(),
                               .token_count = vocabulary.tokens.size(),
                               .merges = vocabulary.merges.data(),
                               .merge_count = vocabulary.merges.size(),
                               .parts = view_of(parts_json)};
    parts = std::make_unique<Parts>(tokenizer_from_vocabulary(raw, origin), origin);
  }
  parts->bos = data.token_id("bos_token_id");
  parts->eos = end_ids(data, vocabulary);
  parts->decide_specials(file, vocabulary.add_bos, vocabulary.add_eos);
  return Tokenizer(std::move(parts));
}

}  // namespace pastkv::text
