// Third-party vectors that scripts/fetch-assets brings.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace pastkv::text {

std::filesystem::path assets_folder();
std::filesystem::path vocabulary(const std::string& name);  // ggml-vocab-NAME.gguf
std::string read_text(const std::filesystem::path& file);

// Texts and the ids they must give, as llama.cpp's vocabularies come with them.
struct Vector {
  std::string text;
  std::vector<std::int32_t> ids;
};
std::vector<Vector> read_vectors(const std::filesystem::path& file);

// Both give the same ids for many texts, and the same text for these ids. Fails the test otherwise.
void expect_equal(const Tokenizer& rebuilt, const Tokenizer& reference);

}  // namespace pastkv::text
