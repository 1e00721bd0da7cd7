#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/mapped_file.h"
#include "text/tokenizer.h"
#include "text/tokenizer_parts.h"

namespace pastkv::text {
namespace {

using nlohmann::json;

constexpr std::string_view kConfigName = "tokenizer_config.json";

std::string_view contents(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// A token of tokenizer_config.json: a string, or an object with its "content".
std::optional<std::string> token_named(const json& config, const char* key) {
  if (!config.is_object() || !config.contains(key)) return std::nullopt;
  const json& token = config[key];
  if (token.is_string()) return token.get<std::string>();
  if (token.is_object() && token.contains("content") && token["content"].is_string()) {
    return token["content"].get<std::string>();
  }
  return std::nullopt;
}

std::optional<bool> flag(const json& config, const char* key) {
  if (!config.is_object() || !config.contains(key) || config[key].is_null()) return std::nullopt;
  if (config[key].is_boolean()) return config[key].get<bool>();
  throw Error(
      {.file = std::string(kConfigName), .place = key, .reason = "is " + config[key].dump() + ", not a boolean"});
}

// Classes that build their post-processor from add_bos_token and add_eos_token, whatever tokenizer.json says.
bool builds_post_processor(const json& config) {
  constexpr std::array<std::string_view, 4> kClasses = {"LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer",
                                                        "CohereTokenizer"};
  if (!config.is_object()) return false;
  std::string name = config.value("tokenizer_class", std::string());
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return std::find(kClasses.begin(), kClasses.end(), name) != kClasses.end();
}

// eos_token_id of generation_config.json or config.json: a number or a list of numbers.
void append_eos_ids(const json& config, const std::filesystem::path& file, std::vector<std::int32_t>& ids) {
  if (!config.is_object() || !config.contains("eos_token_id") || config["eos_token_id"].is_null()) return;
  const json& value = config["eos_token_id"];
  const json list = value.is_array() ? value : json::array({value});
  for (const json& id : list) {
    if (!id.is_number_integer() || id < 0 || id > std::numeric_limits<std::int32_t>::max()) {
      throw Error({.file = file.string(),
                   .place = "eos_token_id",
                   .reason = "is " + value.dump() + ", not a token id or a list of them"});
    }
    ids.push_back(id.get<std::int32_t>());
  }
  if (list.empty()) {
    throw Error({.file = file.string(), .place = "eos_token_id", .reason = "is an empty list"});
  }
}

void keep_first_of_each(std::vector<std::int32_t>& ids) {
  std::vector<std::int32_t> kept;
  for (const std::int32_t id : ids) {
    if (std::find(kept.begin(), kept.end(), id) == kept.end()) kept.push_back(id);
  }
  ids = std::move(kept);
}

}  // namespace

// Who adds BOS and EOS. tokenizer.json's post-processor does it when it has them; tokenizer_config.json adds what it
// asks for and the post-processor is silent about, and takes away what it forbids where transformers' class obeys it.
void Tokenizer::Parts::decide_specials(const json& config) {
  const std::optional<std::string> bos_text = token_named(config, "bos_token");
  const std::optional<std::string> eos_text = token_named(config, "eos_token");
  const auto id_of = [this](const std::optional<std::string>& token) -> std::optional<std::int32_t> {
    std::uint32_t id = 0;
    if (!token || pastkv_tokenizer_id_of(rust.get(), view_of(*token), &id) == 0) return std::nullopt;
    return static_cast<std::int32_t>(id);
  };
  bos = id_of(bos_text);
  const std::optional<std::int32_t> eos_id = id_of(eos_text);
  if (eos_id) eos.push_back(*eos_id);

  // What the post-processor puts around a text: its ids of the empty text.
  const std::vector<std::int32_t> around = encode_with(*rust, "", {}, true);
  const bool has_bos = !around.empty() && (bos ? around.front() == *bos : special.contains(around.front()));
  const bool has_eos = eos_id && !around.empty() && around.back() == *eos_id && (around.size() > 1 || eos_id != bos);
  const std::optional<bool> add_bos = flag(config, "add_bos_token");
  const std::optional<bool> add_eos = flag(config, "add_eos_token");
  if (has_bos && !bos) bos = around.front();

  bos_source = has_bos ? "tokenizer.json: post_processor" : "no file asks for a BOS";
  if (builds_post_processor(config) && ((has_bos && add_bos == false) || (has_eos && add_eos == false))) {
    use_post_processor = false;
    if (has_bos && add_bos != false) prefix = bos;
    if (has_eos && add_eos != false) suffix = eos_id;
    if (add_bos == false) bos_source = "tokenizer_config.json: add_bos_token";
  }
  if (add_bos == true && !has_bos) {
    if (!bos) {
      throw Error({.file = std::string(kConfigName),
                   .place = "add_bos_token",
                   .reason = "asks for a BOS, but bos_token " +
                             (bos_text ? "\"" + *bos_text + "\" is not in the vocabulary" : "is not given")});
    }
    prefix = bos;
    bos_source = "tokenizer_config.json: add_bos_token";
  }
  if (add_eos == true && !has_eos) suffix = eos_id;
}

Tokenizer Tokenizer::from_hf(const formats::HfFolder& folder) {
  if (!folder.tokenizer) {
    throw Error({.file = folder.path.string(),
                 .reason = "has no tokenizer.json",
                 .remedy = "save it with AutoTokenizer.from_pretrained(...).save_pretrained(...)"});
  }
  const auto file = MappedFile::open(*folder.tokenizer);
  const std::string origin = folder.tokenizer->string();
  auto parts = std::make_unique<Parts>(tokenizer_from_json(contents(*file), origin), origin);
  try {
    parts->decide_specials(folder.tokenizer_config);
    parts->clean_up = flag(folder.tokenizer_config, "clean_up_tokenization_spaces").value_or(false);
  } catch (const Error& error) {
    ErrorInfo info = error.info();
    info.file = (folder.path / kConfigName).string();
    throw Error(info);
  }
  // generation_config.json is what the model stops at; config.json has it where the former is missing.
  append_eos_ids(folder.generation_config, folder.path / "generation_config.json", parts->eos);
  append_eos_ids(folder.config, folder.path / "config.json", parts->eos);
  keep_first_of_each(parts->eos);
  return Tokenizer(std::move(parts));
}

Tokenizer Tokenizer::from_file(const std::filesystem::path& tokenizer_json) {
  const auto file = MappedFile::open(tokenizer_json);
  auto parts =
      std::make_unique<Parts>(tokenizer_from_json(contents(*file), tokenizer_json.string()), tokenizer_json.string());
  parts->decide_specials(nullptr);
  return Tokenizer(std::move(parts));
}

}  // namespace pastkv::text
