// The C interface of rust/ with owned results and exceptions. Inside the room only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/rust_interface.h"

namespace pastkv::text {

struct RustTokenizerDeleter {
  void operator()(PastkvTokenizer* tokenizer) const { pastkv_tokenizer_free(tokenizer); }
};
using RustTokenizer = std::unique_ptr<PastkvTokenizer, RustTokenizerDeleter>;

// One added token, as tokenizer.json lists it.
struct AddedToken {
  std::int32_t id;
  std::string content;
  bool special;
};

inline PastkvView view_of(std::string_view text) {
  return {text.data(), text.size()};
}

// `origin` names the file in errors.
RustTokenizer tokenizer_from_json(std::string_view json, const std::string& origin);
RustTokenizer tokenizer_from_vocabulary(const PastkvVocabulary& vocabulary, const std::string& origin);

std::vector<std::int32_t> encode_with(const PastkvTokenizer& tokenizer, std::string_view text,
                                      const PastkvMatching& matching, bool add_special);
std::string decode_with(const PastkvTokenizer& tokenizer, std::span<const std::int32_t> ids, bool skip_special);
std::vector<AddedToken> added_tokens_of(const PastkvTokenizer& tokenizer);

// What came of a template: the text, or why not.
struct Rendered {
  std::string text;      // the prompt, or the error
  bool failed = false;   // `text` is an error
  bool refused = false;  // ... which the template raised itself
};
Rendered render_with(std::string_view source, std::string_view context_json, std::int64_t now);

}  // namespace pastkv::text
