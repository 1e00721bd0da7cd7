// A tokenizer.json in the arrays and ids of a GGUF's tokenizer.ggml.* keys. How text is cut into pieces has a name
// there (pre_tokenizers.h), which is found by what tokenizer.json does, never by a model's name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "formats/hf_folder.h"

namespace pastkv::text {

struct GgufVocabulary {
  std::string model;                // "gpt2": bytes merged by ranks; "llama": SentencePiece, merged by scores
  std::string pre;                  // how text is cut into pieces; "default" for "llama"
  std::vector<std::string> tokens;  // by id
  std::vector<std::int32_t> types;  // of each: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
  std::vector<float> scores;        // of each, for "llama"
  std::vector<std::string> merges;  // "left right", best first, for "gpt2"
  bool add_space_prefix = false;    // for "llama"
  bool add_bos = false;
  bool add_eos = false;
  std::vector<std::pair<std::string, std::int32_t>> ids;  // "bos_token_id" and so on
  std::vector<std::string> notes;                         // what readers will do otherwise
};

// `rows`: of the embedding; ids that tokenizer.json lacks become unused tokens. Nothing when the folder has no
// tokenizer.json. Throws Error when it is of a kind that GGUF has no words for, or has more tokens than rows.
std::optional<GgufVocabulary> gguf_vocabulary(const formats::HfFolder& folder, std::int64_t rows);

}  // namespace pastkv::text
