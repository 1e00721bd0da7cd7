// One GGUF file: its metadata, and where its tensors lie. Private to the room; gguf.h puts split files together.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "formats/gguf.h"

namespace pastkv::formats {

struct GgufPart {
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::vector<GgufPair> pairs;
  std::vector<TensorEntry> tensors;  // in the file's order, names not yet compared with each other
  std::shared_ptr<const MappedFile> file;
};

GgufPart read_gguf_part(const std::filesystem::path& path);

}  // namespace pastkv::formats
