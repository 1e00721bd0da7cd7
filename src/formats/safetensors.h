// Reads safetensors: one file, or the shards that an index names. Header and offsets are checked before any use.
// Source of the format: github.com/huggingface/safetensors.
#pragma once

#include <filesystem>

#include "formats/tensor_source.h"

namespace pastkv::formats {

// Largest header accepted by default, in bytes.
inline constexpr std::uint64_t kSafetensorsHeaderLimit = 256ull << 20;

// Adds the tensors of one .safetensors file to `source`. Throws Error naming file, tensor and byte.
void read_safetensors(const std::filesystem::path& file, TensorSource& source,
                      std::uint64_t header_limit = kSafetensorsHeaderLimit);

// Adds the tensors of every shard that `index` (model.safetensors.index.json) names. Checks before anything else that
// each named shard exists inside the index's folder. Tensors of a shard that the index lacks are added too and
// reported.
void read_safetensors_index(const std::filesystem::path& index, TensorSource& source,
                            std::vector<std::string>& warnings);

}  // namespace pastkv::formats
