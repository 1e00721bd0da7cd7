// Writes a model as a folder that transformers loads: config.json, generation_config.json, safetensors (in shards when
// it is large), tokenizer.json, tokenizer_config.json and the chat template.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "models/model.h"
#include "targets/target.h"
#include "tensor/dtype.h"

namespace pastkv::targets {

struct HfOptions {
  // f32, f16 or bf16; nothing: as stored where that is a plain type, f16 for block formats.
  std::optional<tensor::DType> type;
  std::uint64_t shard_size = 5'000'000'000;  // bytes of tensors in one file at most, but for a file of one tensor
};

// `out`: the folder. Throws Error when it exists, is not empty and may not be replaced, when the model cannot be spelt
// so, when a number is too large for f16, and when the disk is full.
Written write_hf(const models::Model& model, const std::filesystem::path& out, const HfOptions& options,
                 const WriteContext& context);

}  // namespace pastkv::targets
