// Which element type each tensor of a GGUF gets: what is asked for, where llama.cpp takes it, and else the next best.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "models/weight_rows.h"
#include "tensor/dtype.h"

namespace pastkv::targets {

enum class GgufType : std::uint8_t {
  as_stored,
  f32,
  f16,
  bf16,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q4_k,
  q5_k,
  q6_k,
  q4_k_m,  // q4_k, with q6_k for what suffers most
};

// "q4_k_m"; nothing for a name that is none.
std::optional<GgufType> gguf_type_from_name(std::string_view name);

// "as-stored, f32, f16, ...": for a help text.
std::string gguf_type_names();

// What the mixed and the low-bit types depend on, beside the tensor itself.
struct TensorPlace {
  std::int64_t layers = 0;  // of the model
  bool tied = false;        // the embedding is the output matrix too
};

// The element type of a tensor that is called `rows.name` in the file.
tensor::DType tensor_type(GgufType wanted, const models::WeightRows& rows, const TensorPlace& place);

// The number that general.file_type has for a file of this type; nothing for as_stored.
std::optional<std::uint32_t> file_type_number(GgufType type);

}  // namespace pastkv::targets
