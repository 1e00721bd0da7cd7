// What a Tokenizer holds. Inside the room only.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "text/rust_bridge.h"
#include "text/tokenizer.h"

namespace pastkv::text {

struct Tokenizer::Parts {
  RustTokenizer rust;
  std::string origin;  // the file, for errors
  std::vector<AddedToken> added;
  std::unordered_set<std::int32_t> special;  // ids
  std::optional<std::int32_t> bos;
  std::vector<std::int32_t> eos;
  // Added around the ids when specials are asked for; what the post-processor adds by itself is not listed here.
  std::optional<std::int32_t> prefix;
  std::optional<std::int32_t> suffix;
  // The post-processor's own specials are wanted. False when tokenizer_config.json overrules it.
  bool use_post_processor = true;
  bool clean_up = false;  // decoding drops the spaces before punctuation
  std::string bos_source;

  Parts(RustTokenizer tokenizer, std::string file);
  void decide_specials(const nlohmann::json& tokenizer_config);
  void decide_specials(const formats::GgufFile& file, bool usual_bos, bool usual_eos);
};

// transformers' clean_up_tokenization: " ." becomes ".", " n't" becomes "n't", and so on.
std::string clean_up_spaces(std::string text);
// Bytes at the start of `text` whose cleaned form no further text can change.
std::size_t settled_before_clean_up(std::string_view text);

}  // namespace pastkv::text
