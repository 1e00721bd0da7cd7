// Reads every byte that a source hands out, so that a view beyond its file is found.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "formats/tensor_source.h"

namespace pastkv::fuzz {

inline void touch(const formats::TensorSource& source) {
  std::uint64_t sum = 0;
  for (const formats::TensorEntry& entry : source.tensors()) {
    const auto bytes = tensor::byte_size(entry.dtype, static_cast<std::uint64_t>(entry.elements()));
    if (bytes != entry.bytes.size() || source.find(entry.name) != &entry) std::abort();
    for (const std::byte byte : entry.bytes) sum += std::to_integer<std::uint64_t>(byte);
  }
  volatile std::uint64_t kept = sum;
  static_cast<void>(kept);
}

}  // namespace pastkv::fuzz
