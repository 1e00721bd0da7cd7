// Element types: plain numbers and the block formats of GGUF, where a block of weights shares its scales.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace pastkv::tensor {

enum class DType : std::uint8_t {
  f32,
  f16,
  bf16,
  f64,
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  boolean,
  f8_e4m3,
  f8_e5m2,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,  // blocks of 32
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,    // super-blocks of 256
  iq4_nl,  // blocks of 32, a table of 16 values
};

struct DTypeTraits {
  std::string_view name;        // lower case, as on the command line and in JSON: "f16", "q4_k", "int64"
  std::int64_t block_elements;  // 1 for plain numbers
  std::int64_t block_bytes;
  bool is_float;  // decodable to float by tensor/codec.h
};

const DTypeTraits& traits(DType type);
inline std::string_view name(DType type) {
  return traits(type).name;
}
std::optional<DType> dtype_from_name(std::string_view name);

// Bytes of `elements` contiguous elements; nothing when they are no whole number of blocks, or on overflow.
std::optional<std::uint64_t> byte_size(DType type, std::uint64_t elements);

}  // namespace pastkv::tensor
