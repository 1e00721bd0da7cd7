// How a byte-level vocabulary of a GGUF file cuts text into pieces before merging: what tokenizer.ggml.pre names.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pastkv::text {

struct PreTokenizer {
  std::vector<std::string_view> names;   // values of tokenizer.ggml.pre
  std::vector<std::string_view> splits;  // regular expressions; each cuts its matches out of what the former left
  bool ignore_merges = false;            // a piece that is a token stays whole
  bool add_bos = false;                  // when the file does not say
  bool nfc = false;                      // text is normalized to NFC first
  bool byte_level = true;                // pieces are spelt in the byte alphabet; false: UTF-8, spaces as U+2581
};

std::span<const PreTokenizer> pre_tokenizers();
const PreTokenizer* find_pre_tokenizer(std::string_view name);  // null when unknown
std::string known_pre_tokenizers();                             // names, for an error

}  // namespace pastkv::text
