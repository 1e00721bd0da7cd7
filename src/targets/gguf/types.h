// Which element type each tensor of a GGUF gets: what is asked for, where llama.cpp takes it, and else the next best.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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

}  // namespace pastkv::targets
