#include "text/tokenizer_json.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "text/vocabulary.h"

namespace pastkv::text {
namespace {

using nlohmann::json;

std::string_view view(const PastkvView& text) {
  return {text.data, text.size};
}

std::string quoted(std::string_view text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

bool begins_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
}

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_character));
}

struct Merge {
  float score;
  std::size_t left_characters;
  std::size_t right_characters;
  std::size_t id;
  std::string_view left;
  std::string_view right;
};

// A vocabulary with scores merges any two neighbours whose joined text is a token, the highest score first. As a list:
// every way to cut a token into two tokens, in that order; of equal scores the longer left part first.
std::vector<Merge> merges_of_scores(const Vocabulary& vocabulary) {
  std::unordered_map<std::string_view, std::size_t> ids;
  ids.reserve(vocabulary.tokens.size());
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) ids.try_emplace(view(vocabulary.tokens[id]), id);
  std::vector<Merge> merges;
  for (const auto& [token, id] : ids) {
    if ((vocabulary.flags[id] & (PASTKV_TOKEN_SPECIAL | PASTKV_TOKEN_NO_MERGE)) != 0) continue;
    for (std::size_t cut = 1; cut < token.size(); ++cut) {
      if (!begins_character(token[cut])) continue;
      const std::string_view left = token.substr(0, cut);
      const std::string_view right = token.substr(cut);
      if (!ids.contains(left) || !ids.contains(right)) continue;
      merges.push_back({vocabulary.scores[id], characters(left), characters(right), id, left, right});
    }
  }
  std::ranges::sort(merges, [](const Merge& a, const Merge& b) {
    return std::tuple(-a.score, b.left_characters, b.right_characters, a.id) <
           std::tuple(-b.score, a.left_characters, a.right_characters, b.id);
  });
  return merges;
}

std::string merges_text(const Vocabulary& vocabulary, bool scored) {
  std::string text;
  const auto add = [&text](std::string_view left, std::string_view right) {
    text += (text.empty() ? "[" : ",[") + quoted(left) + "," + quoted(right) + "]";
  };
  if (scored) {
    for (const Merge& merge : merges_of_scores(vocabulary)) add(merge.left, merge.right);
    return text;
  }
  for (const PastkvView& merge : vocabulary.merges) {
    const std::string_view line = view(merge);
    const std::size_t space = line.find(' ', 1);
    if (space != std::string_view::npos) add(line.substr(0, space), line.substr(space + 1));
  }
  return text;
}

// {"type": "BPE", ...} in the order in which the reference writes it. The vocabulary is written as text: a tree of
// JSON values would take hundreds of megabytes.
std::string model_text(const VocabularyKeys& keys, const Vocabulary& vocabulary) {
  const json& model = vocabulary.parts.at("model");
  const std::string kind = model.at("type").get<std::string>();
  if (kind != "BPE" && kind != "ScoredBPE") {
    keys.fail("model", "is of the kind " + kind + "; only BPE is written as tokenizer.json");
  }
  const auto flag = [&model](const char* name) { return model.value(name, false) ? "true" : "false"; };
  const json unknown = model.contains("unk_token") ? model["unk_token"] : json();
  std::string text = R"({"type":"BPE","dropout":null,"unk_token":)";
  text += unknown.dump(-1, ' ', false, json::error_handler_t::replace);
  text += R"(,"continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":)";
  text += flag("fuse_unk");
  text += R"(,"byte_fallback":)";
  text += flag("byte_fallback");
  text += R"(,"ignore_merges":)";
  text += flag("ignore_merges");
  text += R"(,"vocab":{)";
  std::unordered_map<std::string_view, std::size_t> seen;
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string_view token = view(vocabulary.tokens[id]);
    if (!seen.try_emplace(token, id).second) continue;
    text += (id == 0 ? "" : ",") + quoted(token) + ":" + std::to_string(id);
  }
  return text + R"(},"merges":[)" + merges_text(vocabulary, kind == "ScoredBPE") + "]}";
}

std::string added_text(const Vocabulary& vocabulary) {
  std::string text;
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::uint8_t flags = vocabulary.flags[id];
    if ((flags & PASTKV_TOKEN_ADDED) == 0) continue;
    const json token = {{"id", id},
                        {"content", view(vocabulary.tokens[id])},
                        {"single_word", false},
                        {"lstrip", (flags & PASTKV_TOKEN_LSTRIP) != 0},
                        {"rstrip", (flags & PASTKV_TOKEN_RSTRIP) != 0},
                        {"normalized", false},
                        {"special", (flags & PASTKV_TOKEN_SPECIAL) != 0}};
    text += (text.empty() ? "" : ",") + token.dump(-1, ' ', false, json::error_handler_t::replace);
  }
  return text;
}

bool asks(const VocabularyKeys& keys, std::string_view name, bool usual) {
  return keys.file.find_bool(ggml_key(name)).value_or(usual);
}

// What is put around a text: [BOS] text [EOS].
json post_processor(const VocabularyKeys& keys, const Vocabulary& vocabulary) {
  json single = json::array();
  json tokens = json::object();
  const auto add = [&](const char* name) {
    const auto id = keys.token_id(name);
    if (!id) return;
    const std::string token = keys.text(id);
    single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
    tokens[token] = {{"id", token}, {"ids", {*id}}, {"tokens", {token}}};
  };
  if (asks(keys, "add_bos_token", vocabulary.add_bos)) add("bos_token_id");
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  if (asks(keys, "add_eos_token", vocabulary.add_eos)) add("eos_token_id");
  if (tokens.empty()) return nullptr;
  json pair = single;
  for (const json& step : single) {
    json second = step;
    for (auto& [kind, value] : second.items()) {
      value["type_id"] = 1;
      if (kind == "Sequence") value["id"] = "B";
    }
    pair.push_back(second);
  }
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", tokens}};
}

}  // namespace

std::string tokenizer_json(const formats::GgufFile& file) {
  if (auto whole = file.find_string("tokenizer.huggingface.json")) return *std::move(whole);
  const VocabularyKeys keys = vocabulary_keys(file);
  const Vocabulary vocabulary = read_vocabulary(keys);
  const auto part = [&](const char* name) {
    const json value = vocabulary.parts.contains(name) ? vocabulary.parts[name] : json();
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
  };
  const json around = vocabulary.parts.contains("post_processor") ? vocabulary.parts["post_processor"]
                                                                  : post_processor(keys, vocabulary);
  std::string text = R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[)";
  text += added_text(vocabulary) + R"(],"normalizer":)" + part("normalizer");
  text += R"(,"pre_tokenizer":)" + part("pre_tokenizer");
  text += R"(,"post_processor":)" + around.dump(-1, ' ', false, json::error_handler_t::replace);
  text += R"(,"decoder":)" + part("decoder");
  return text + R"(,"model":)" + model_text(keys, vocabulary) + "}\n";
}

nlohmann::ordered_json tokenizer_config(const formats::GgufFile& file) {
  const VocabularyKeys keys = vocabulary_keys(file);
  nlohmann::ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                                   {"clean_up_tokenization_spaces", false},
                                   {"model_input_names", {"input_ids", "attention_mask"}}};
  const auto name = [&](const char* key, const char* id) {
    if (const auto found = keys.token_id(id)) config[key] = keys.text(found);
  };
  name("bos_token", "bos_token_id");
  name("eos_token", "eos_token_id");
  name("unk_token", "unknown_token_id");
  name("pad_token", "padding_token_id");
  return config;
}

}  // namespace pastkv::text
