// The vocabulary of a GGUF as a Hugging Face tokenizer: the same ids, in the files that transformers loads.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "formats/gguf.h"

namespace pastkv::text {

// tokenizer.json, whole. Throws Error when the file has no vocabulary, or one whose kind is not BPE.
std::string tokenizer_json(const formats::GgufFile& file);

// tokenizer_config.json: special tokens by name, and the class that takes tokenizer.json as it is.
nlohmann::ordered_json tokenizer_config(const formats::GgufFile& file);

}  // namespace pastkv::text
