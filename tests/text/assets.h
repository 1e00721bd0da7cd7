// Third-party vectors that scripts/fetch-assets brings.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace pastkv::text {

std::filesystem::path assets_folder();
std::string read_text(const std::filesystem::path& file);

// Texts and the ids they must give, as llama.cpp's vocabularies come with them.
struct Vector {
  std::string text;
  std::vector<std::int32_t> ids;
};
std::vector<Vector> read_vectors(const std::filesystem::path& vocabulary);

}  // namespace pastkv::text
