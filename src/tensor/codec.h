// Row codecs: the plain, exact meaning of each element type, one row at a time. Speed lives in engine/kernels.
// Layouts: ggml-common.h and ggml-quants.c of llama.cpp; golden values in tests come from the Python package `gguf`.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace pastkv::tensor {

float f16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_f16(float value);  // round to nearest even; overflow gives infinity
inline float bf16_to_f32(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
std::uint16_t f32_to_bf16(float value);  // round to nearest even; NaN stays NaN

// Decodes `out.size()` elements. `row` holds exactly byte_size(type, out.size()) bytes, at any alignment.
// Precondition: out.size() is a multiple of the block size. Throws Error unless traits(type).is_float.
void decode_row(DType type, std::span<const std::byte> row, std::span<float> out);

// True for the types that encode_row writes: f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q2_k to q6_k.
bool can_encode(DType type);

// Encodes `in.size()` elements into exactly byte_size(type, in.size()) bytes. Blocks of 32 are those of llama.cpp's
// reference quantizers; for blocks of 256 a search finds scales of little error.
// NaN and what is beyond a block's range land on one of its levels. Throws Error unless can_encode(type).
void encode_row(DType type, std::span<const float> in, std::span<std::byte> row);

}  // namespace pastkv::tensor
