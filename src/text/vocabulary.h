// The vocabulary of a GGUF file: its keys, and what they say in the form the Rust side takes. Inside the room only.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/gguf.h"
#include "text/rust_bridge.h"

namespace pastkv::text {

inline constexpr const char* kSpace = "\xE2\x96\x81";  // U+2581, how SentencePiece writes a space

// "tokens" -> "tokenizer.ggml.tokens"
inline std::string ggml_key(std::string_view name) {
  return "tokenizer.ggml." + std::string(name);
}

// The tokenizer.ggml.* keys of a file.
struct VocabularyKeys {
  const formats::GgufFile& file;
  const std::vector<std::string_view>& tokens;

  [[noreturn]] void fail(std::string_view name, std::string reason, std::string remedy = "") const {
    throw Error({.file = file.path.string(),
                 .place = ggml_key(name),
                 .reason = std::move(reason),
                 .remedy = std::move(remedy)});
  }

  std::optional<std::int32_t> token_id(std::string_view name) const {
    const std::optional<std::int64_t> id = file.find_int(ggml_key(name));
    if (!id) return std::nullopt;
    if (*id < 0 || static_cast<std::uint64_t>(*id) >= tokens.size()) {
      fail(name, "is " + std::to_string(*id) + ", but the vocabulary has " + std::to_string(tokens.size()) + " tokens");
    }
    return static_cast<std::int32_t>(*id);
  }

  std::string text(std::optional<std::int32_t> id) const { return id ? std::string(tokens[*id]) : std::string(); }
};

// What a vocabulary says, in the form the Rust side takes.
struct Vocabulary {
  std::vector<std::string> changed;  // owns tokens that are spelt another way than in the file
  std::vector<PastkvView> tokens;
  std::vector<std::uint8_t> flags;
  std::vector<float> scores;
  std::vector<PastkvView> merges;
  nlohmann::json parts;
  bool add_bos = false;
  bool add_eos = false;
};

// Throws Error when the file has no tokens.
VocabularyKeys vocabulary_keys(const formats::GgufFile& file);
// The views point into `keys` and the vocabulary itself. Throws Error for an unknown model or pre.
Vocabulary read_vocabulary(const VocabularyKeys& keys);

}  // namespace pastkv::text
