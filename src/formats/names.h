// Names from files, made fit for an error line. Private to the room.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"

namespace pastkv::formats {

// The name, cut to a length that a person reads: files may hold names of megabytes.
std::string shown(std::string_view name);

// "a, b, c and 7 more".
std::string shown_list(const std::vector<std::string>& names);

// "[2, 3]"
template <typename Number>
std::string shown_shape(const std::vector<Number>& shape) {
  std::string text = "[";
  for (const Number size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

// Opens a file of weights. Throws Error, as MappedFile does and for what is commonly found in a weight file's place:
// nothing at all, or the pointer that Git LFS leaves when the content was not fetched.
std::shared_ptr<const MappedFile> open_weights(const std::filesystem::path& path);

}  // namespace pastkv::formats
