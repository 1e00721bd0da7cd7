// What writing to any target has in common. Each target has a folder of its own: coreml, onnx, gguf, hf; its write.h
// has one function `Written write_<target>(const models::Model&, const std::filesystem::path& out, const
// <Target>Options&, const WriteContext&)`, and import.h of coreml and onnx has `ImportedModel import_<target>(const
// std::filesystem::path&)`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/progress.h"

namespace pastkv::targets {

struct WriteContext {
  bool replace = false;   // --force
  ProgressSink progress;  // may be empty
};

struct Written {
  std::vector<std::string> files;  // relative to the output's folder
  std::uint64_t bytes = 0;         // of all files
  std::vector<std::string> notes;  // what the target could not hold, and what was done instead
};

}  // namespace pastkv::targets
