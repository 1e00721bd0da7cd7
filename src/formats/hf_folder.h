// A Hugging Face model folder: its JSON files and its tensors, found and read but not yet understood.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "formats/json_file.h"
#include "formats/tensor_source.h"

namespace pastkv::formats {

struct HfFolder {
  std::filesystem::path path;
  nlohmann::json config;                           // config.json, an object
  nlohmann::json generation_config;                // null when absent
  nlohmann::json tokenizer_config;                 // null when absent
  std::optional<std::filesystem::path> tokenizer;  // tokenizer.json
  std::optional<std::string> chat_template;        // chat_template.jinja, whole
  TensorSource tensors;
  std::uint64_t file_bytes = 0;  // of the weight files
  std::vector<std::string> warnings;
};

// The texts of a folder alone: its tokenizer and chat template, for a folder whose weights are in another form, or
// missing. `config` and `tensors` stay empty. Throws Error when one of the files is damaged.
HfFolder read_hf_texts(const std::filesystem::path& folder);

// Throws Error when there is no config.json, no weights, or one of the files is damaged.
HfFolder read_hf_folder(const std::filesystem::path& folder);

}  // namespace pastkv::formats
