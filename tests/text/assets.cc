#include "assets.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/error.h"

namespace pastkv::text {

std::filesystem::path assets_folder() {
  const char* folder = std::getenv("PASTKV_ASSETS");
  if (folder == nullptr) throw Error({.reason = "PASTKV_ASSETS is not set", .remedy = "run scripts/fetch-assets"});
  return folder;
}

std::string read_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Error({.file = file.string(), .reason = "cannot be read"});
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<Vector> read_vectors(const std::filesystem::path& vocabulary) {
  constexpr std::string_view kBetween = "\n__ggml_vocab_test__\n";
  const std::string texts = read_text(vocabulary.string() + ".inp");
  std::istringstream lines(read_text(vocabulary.string() + ".out"));
  std::vector<Vector> vectors;
  std::string line;
  for (std::size_t at = 0; at <= texts.size() && std::getline(lines, line);) {
    const std::size_t end = texts.find(kBetween, at);
    Vector vector{.text = texts.substr(at, end == std::string::npos ? end : end - at)};
    std::istringstream ids(line);
    for (std::int32_t id = 0; ids >> id;) vector.ids.push_back(id);
    vectors.push_back(std::move(vector));
    if (end == std::string::npos) break;
    at = end + kBetween.size();
  }
  return vectors;
}

}  // namespace pastkv::text
