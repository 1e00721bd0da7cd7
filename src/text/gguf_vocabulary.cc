#include "text/gguf_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/error.h"
#include "formats/json_file.h"
#include "text/pre_tokenizers.h"
#include "text/tokenizer.h"

namespace pastkv::text {
namespace {

using nlohmann::json;

constexpr const char* kSpace = "\xE2\x96\x81";  // U+2581, how SentencePiece writes a space

enum TokenType : std::int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

[[noreturn]] void fail(const formats::HfFolder& folder, std::string place, std::string reason) {
  throw Error({.file = (folder.path / "tokenizer.json").string(),
               .place = std::move(place),
               .reason = std::move(reason),
               .remedy = "write the GGUF without a tokenizer"});
}

// A part of tokenizer.json, null when it is absent.
const json& part(const json& object, const char* key) {
  static const json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}

std::string text(const json& object, const char* key) {
  const json& value = part(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

bool flag(const json& object, const char* key, bool usual) {
  const json& value = part(object, key);
  return value.is_boolean() ? value.get<bool>() : usual;
}

// The steps of a part that may be a Sequence of them.
std::vector<const json*> steps_of(const json& whole, const char* list) {
  if (whole.is_null()) return {};
  if (text(whole, "type") != "Sequence") return {&whole};
  std::vector<const json*> steps;
  for (const json& step : part(whole, list)) {
    for (const json* inner : steps_of(step, list)) steps.push_back(inner);
  }
  return steps;
}

std::vector<const json*> pre_tokenizer_steps(const json& tokenizer) {
  return steps_of(part(tokenizer, "pre_tokenizer"), "pretokenizers");
}

std::vector<const json*> normalizer_steps(const json& tokenizer) {
  return steps_of(part(tokenizer, "normalizer"), "normalizers");
}

bool has_step(const std::vector<const json*>& steps, std::string_view type) {
  return std::ranges::any_of(steps, [&](const json* step) { return text(*step, "type") == type; });
}

// Line ends that stand in an expression as they are, in the two letters that most files have for them.
std::string with_escapes(std::string_view expression) {
  std::string out;
  for (const char byte : expression) {
    if (byte == '\n') {
      out += "\\n";
    } else if (byte == '\r') {
      out += "\\r";
    } else {
      out += byte;
    }
  }
  return out;
}

// The regular expression whose matches a step cuts out; empty when it cuts nothing.
std::optional<std::string> expression_of(const json& step) {
  const std::string type = text(step, "type");
  if (type == "Digits") return flag(step, "individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)";
  if (type == "ByteLevel") {
    return flag(step, "use_regex", true) ? std::string(find_pre_tokenizer("gpt-2")->splits.front()) : std::string();
  }
  if (type != "Split") return std::nullopt;
  // What is cut out and removed, turned round, is what is kept: the same where the expression covers all text.
  const bool isolated = text(step, "behavior") == "Isolated" && !flag(step, "invert", false);
  const bool kept = text(step, "behavior") == "Removed" && flag(step, "invert", false);
  const std::string expression = with_escapes(text(part(step, "pattern"), "Regex"));
  if ((!isolated && !kept) || expression.empty()) return std::nullopt;
  return expression;
}

std::optional<std::vector<std::string>> expressions_of(const json& tokenizer) {
  std::vector<std::string> expressions;
  for (const json* step : pre_tokenizer_steps(tokenizer)) {
    const auto expression = expression_of(*step);
    if (!expression) return std::nullopt;
    if (!expression->empty()) expressions.push_back(*expression);
  }
  return expressions;
}

void read_pre(const formats::HfFolder& folder, const json& tokenizer, GgufVocabulary& out) {
  const auto expressions = expressions_of(tokenizer);
  const bool ignore_merges = flag(part(tokenizer, "model"), "ignore_merges", false);
  const bool nfc = has_step(normalizer_steps(tokenizer), "NFC");
  const PreTokenizer* best = nullptr;
  int most = -1;
  for (const PreTokenizer& known : pre_tokenizers()) {
    if (!known.byte_level || !expressions || !std::ranges::equal(known.splits, *expressions)) continue;
    const int fit = (known.ignore_merges == ignore_merges ? 2 : 0) + (known.nfc == nfc ? 1 : 0);
    if (fit <= most) continue;
    best = &known;
    most = fit;
  }
  if (best == nullptr) fail(folder, "pre_tokenizer", "cuts text in a way that GGUF has no name for");
  out.pre = best->names.front();
  if (best->ignore_merges != ignore_merges) {
    out.notes.push_back(fmt::format("readers of GGUF {} words that are tokens whole, unlike tokenizer.json",
                                    ignore_merges ? "do not keep" : "keep"));
  }
  if (nfc) out.notes.emplace_back("llama.cpp does not bring text to the normal form NFC first, as tokenizer.json does");
}

void read_tokens(const formats::HfFolder& folder, const json& tokenizer, std::int64_t rows, GgufVocabulary& out) {
  const auto size = static_cast<std::size_t>(rows);
  out.tokens.assign(size, {});
  out.types.assign(size, kUnused);
  const auto set = [&](const json& id, std::string token, std::int32_t type) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= size) {
      fail(folder, fmt::format("token {}", token.substr(0, 64)),
           fmt::format("has id {}, the embedding has {} rows", id.dump(), rows));
    }
    out.tokens[id.get<std::size_t>()] = std::move(token);
    out.types[id.get<std::size_t>()] = type;
  };
  const json& model = part(tokenizer, "model");
  const bool bytes = flag(model, "byte_fallback", false);
  const std::string unknown = text(model, "unk_token");
  for (const auto& [token, id] : part(model, "vocab").items()) {
    const bool byte = bytes && token.size() == 6 && token.starts_with("<0x") && token.back() == '>';
    set(id, token, byte ? kByte : kNormal);
  }
  for (const json& added : part(tokenizer, "added_tokens")) {
    const std::string token = text(added, "content");
    const bool special = flag(added, "special", false);
    set(part(added, "id"), token, special ? (token == unknown ? kUnknown : kControl) : kUserDefined);
  }
  for (std::size_t id = 0; id < size; ++id) {
    if (out.types[id] == kUnused) out.tokens[id] = fmt::format("[PAD{}]", id);
  }
}

std::pair<std::string, std::string> merge_parts(const json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  }
  const std::string line = merge.is_string() ? merge.get<std::string>() : std::string();
  const std::size_t space = line.find(' ', 1);
  if (line.empty() || space == std::string::npos) return {};
  return {line.substr(0, space), line.substr(space + 1)};
}

// SentencePiece merges the pair of the highest score first; the order of merges says which that is.
void read_scores(const json& tokenizer, GgufVocabulary& out) {
  std::unordered_map<std::string, float> ranks;
  float rank = 0;
  for (const json& merge : part(part(tokenizer, "model"), "merges")) {
    const auto [left, right] = merge_parts(merge);
    if (ranks.try_emplace(left + right, -rank).second) ++rank;
  }
  // What no merge makes comes after all that merges make.
  out.scores.assign(out.tokens.size(), -rank);
  for (std::size_t id = 0; id < out.tokens.size(); ++id) {
    if (out.types[id] == kControl || out.types[id] == kUnknown || out.types[id] == kByte) out.scores[id] = 0;
    if (const auto found = ranks.find(out.tokens[id]); found != ranks.end()) out.scores[id] = found->second;
  }
}

void read_scored(const formats::HfFolder& folder, const json& tokenizer, GgufVocabulary& out) {
  const auto pieces = pre_tokenizer_steps(tokenizer);
  const auto normalizers = normalizer_steps(tokenizer);
  const auto replaces_space = [](const json* step) {
    return text(*step, "type") == "Replace" && text(*step, "content") == kSpace;
  };
  if (!has_step(pieces, "Metaspace") && std::ranges::none_of(normalizers, replaces_space)) {
    fail(folder, "normalizer", "does not write spaces as SentencePiece does");
  }
  out.model = "llama";
  out.pre = "default";
  out.add_space_prefix = has_step(normalizers, "Prepend");
  for (const json* step : pieces) {
    if (text(*step, "type") != "Metaspace") continue;
    const std::string scheme = text(*step, "prepend_scheme");
    out.add_space_prefix = scheme.empty() ? flag(*step, "add_prefix_space", true) : scheme != "never";
  }
  read_scores(tokenizer, out);
  // Readers look for user-defined tokens in the text itself.
  for (std::size_t id = 0; id < out.tokens.size(); ++id) {
    if (out.types[id] != kUserDefined) continue;
    std::string& token = out.tokens[id];
    for (std::size_t at = token.find(kSpace); at != std::string::npos; at = token.find(kSpace, at)) {
      token.replace(at, std::string_view(kSpace).size(), " ");
    }
  }
}

void read_merged(const formats::HfFolder& folder, const json& tokenizer, GgufVocabulary& out) {
  out.model = "gpt2";
  read_pre(folder, tokenizer, out);
  const json& merges = part(part(tokenizer, "model"), "merges");
  out.merges.reserve(merges.size());
  for (const json& merge : merges) {
    const auto [left, right] = merge_parts(merge);
    if (left.empty()) fail(folder, "model.merges", "has an entry that is not a pair of tokens");
    out.merges.push_back(left + " " + right);
  }
}

// A token of tokenizer_config.json: a string, or an object with its "content".
std::string named_token(const json& config, const char* key) {
  const json& token = part(config, key);
  return token.is_string() ? token.get<std::string>() : text(token, "content");
}

void read_ids(const formats::HfFolder& folder, const Tokenizer& tokenizer, GgufVocabulary& out) {
  const auto set = [&](const char* name, std::optional<std::int32_t> id) {
    if (!id || *id < 0 || static_cast<std::size_t>(*id) >= out.tokens.size()) return;
    out.ids.emplace_back(name, *id);
  };
  const auto named = [&](const char* key) -> std::optional<std::int32_t> {
    const std::string token = named_token(folder.tokenizer_config, key);
    return token.empty() ? std::nullopt : tokenizer.id_of(token);
  };
  const auto configured = [&](const char* key) -> std::optional<std::int32_t> {
    const json& id = part(folder.config, key);
    return id.is_number_integer() ? std::optional(id.get<std::int32_t>()) : std::nullopt;
  };
  std::optional<std::int32_t> bos = tokenizer.bos();
  if (!bos) bos = configured("bos_token_id");
  set("bos_token_id", bos);
  // The first ends a text; what else ends an answer has keys of its own.
  const std::vector<std::int32_t> ends = tokenizer.eos_ids();
  constexpr std::array<const char*, 3> kEnds = {"eos_token_id", "eot_token_id", "eom_token_id"};
  for (std::size_t i = 0; i < std::min(ends.size(), kEnds.size()); ++i) set(kEnds[i], ends[i]);
  set("unknown_token_id", named("unk_token"));
  set("padding_token_id", named("pad_token"));

  const std::vector<std::int32_t> around = tokenizer.encode("", true);
  out.add_bos = bos && !around.empty() && around.front() == *bos;
  out.add_eos =
      !ends.empty() && !around.empty() && around.back() == ends.front() && (around.size() > 1 || !out.add_bos);
}

}  // namespace

std::optional<GgufVocabulary> gguf_vocabulary(const formats::HfFolder& folder, std::int64_t rows) {
  if (!folder.tokenizer) return std::nullopt;
  GgufVocabulary out;
  {
    const Tokenizer checked = Tokenizer::from_hf(folder);  // whatever is damaged is found here
    const json tokenizer = formats::read_json_object(*folder.tokenizer);
    const json& model = part(tokenizer, "model");
    const std::string kind = text(model, "type");
    if (kind != "BPE" && !(kind.empty() && model.contains("merges"))) {
      fail(folder, "model.type", fmt::format("is \"{}\"; only BPE is written to GGUF", kind));
    }
    read_tokens(folder, tokenizer, rows, out);
    const bool by_bytes = has_step(pre_tokenizer_steps(tokenizer), "ByteLevel");
    if (by_bytes) {
      read_merged(folder, tokenizer, out);
    } else if (flag(model, "byte_fallback", false)) {
      read_scored(folder, tokenizer, out);
    } else {
      fail(folder, "pre_tokenizer", "is neither of bytes nor SentencePiece's");
    }
    read_ids(folder, checked, out);
  }
  return out;
}

}  // namespace pastkv::text
