// The numbers by which GGUF names element types. Private to the room.
// Source: enum ggml_type in ggml/include/ggml.h of llama.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tensor/dtype.h"

namespace pastkv::formats {

std::optional<tensor::DType> gguf_tensor_type(std::uint32_t number);

// Throws std::logic_error for a type that the format has not.
std::uint32_t gguf_type_number(tensor::DType type);

// "39 (MXFP4)", or the number alone.
std::string gguf_tensor_type_name(std::uint32_t number);

// "F32 F16 Q4_0 ...": what gguf_tensor_type knows.
std::string gguf_supported_types();

}  // namespace pastkv::formats
