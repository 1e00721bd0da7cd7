#include "formats/names.h"

#include <algorithm>

#include "base/error.h"

namespace pastkv::formats {

std::string shown(std::string_view name) {
  constexpr std::size_t kLongest = 160;
  if (name.size() <= kLongest) return std::string(name);
  std::size_t end = kLongest;
  // Not in the middle of a character.
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0U) == 0x80U) --end;
  return std::string(name.substr(0, end)) + "...";
}

std::string shown_list(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 5;
  std::string text;
  const std::size_t count = std::min(names.size(), kMost);
  for (std::size_t i = 0; i < count; ++i) text += (i > 0 ? ", " : "") + shown(names[i]);
  if (names.size() > count) text += " and " + std::to_string(names.size() - count) + " more";
  return text;
}

std::shared_ptr<const MappedFile> open_weights(const std::filesystem::path& path) {
  auto file = MappedFile::open(path);
  const auto bytes = file->bytes();
  if (bytes.empty()) {
    throw Error({.file = path.string(), .place = {}, .reason = "is empty (0 bytes)", .remedy = "download it again"});
  }
  constexpr std::string_view kPointer = "version https://git-lfs";
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kPointer.size()));
  if (start == kPointer) {
    throw Error({.file = path.string(),
                 .place = {},
                 .reason = "is a Git LFS pointer of " + std::to_string(bytes.size()) + " bytes, not the weights",
                 .remedy = "run `git lfs pull` in its folder"});
  }
  return file;
}

}  // namespace pastkv::formats
