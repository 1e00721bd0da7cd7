// One block at a time, by type: what codec.cc is made of. Private to the room.
// A block is traits(type).block_bytes at any alignment, its floats are traits(type).block_elements.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace pastkv::tensor {

// 4 exponent bits, bias 7, no infinity; 0x7F and 0xFF are NaN (the "fn" kind that checkpoints use).
float f8_e4m3_to_f32(std::uint8_t bits);
// The upper byte of an f16.
float f8_e5m2_to_f32(std::uint8_t bits);

using BlockDecoder = void (*)(const std::uint8_t* block, float* out);
using BlockEncoder = void (*)(const float* in, std::uint8_t* block);

// Null for a type that is no block format.
BlockDecoder block_decoder(DType type);
// Null for a type that is not written.
BlockEncoder block_encoder(DType type);
BlockEncoder super_block_encoder(DType type);  // of those with blocks of 256

}  // namespace pastkv::tensor
