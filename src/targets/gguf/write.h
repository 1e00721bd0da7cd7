// Writes a model as GGUF version 3, as llama.cpp reads it: one file, or parts of a size that is asked for.
#pragma once

#include <cstdint>
#include <filesystem>

#include "models/model.h"
#include "targets/gguf/types.h"
#include "targets/target.h"

namespace pastkv::targets {

struct GgufOptions {
  GgufType type = GgufType::as_stored;
  std::uint64_t split_size = 0;  // bytes of tensors in one part at most, but for a part of one tensor; 0: no parts
  bool tokenizer = true;         // false: without any vocabulary, which few readers take
};

// `out`: the name of a .gguf file. With parts, "name.gguf" becomes "name-00001-of-0000N.gguf" and so on. Throws Error
// when `out` exists and may not be replaced, when the model cannot be spelt as GGUF, when a number is too large for
// f16, and when the disk is full.
Written write_gguf(const models::Model& model, const std::filesystem::path& out, const GgufOptions& options,
                   const WriteContext& context);

}  // namespace pastkv::targets
