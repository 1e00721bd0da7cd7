#include "formats/gguf_types.h"

#include <stdexcept>

namespace pastkv::formats {
namespace {

using tensor::DType;

struct Known {
  std::uint32_t number;
  const char* name;
  std::optional<DType> type;  // nothing: named in errors only
};

constexpr Known kTypes[] = {
    {0, "F32", DType::f32},
    {1, "F16", DType::f16},
    {2, "Q4_0", DType::q4_0},
    {3, "Q4_1", DType::q4_1},
    {6, "Q5_0", DType::q5_0},
    {7, "Q5_1", DType::q5_1},
    {8, "Q8_0", DType::q8_0},
    {9, "Q8_1", {}},
    {10, "Q2_K", DType::q2_k},
    {11, "Q3_K", DType::q3_k},
    {12, "Q4_K", DType::q4_k},
    {13, "Q5_K", DType::q5_k},
    {14, "Q6_K", DType::q6_k},
    {15, "Q8_K", {}},
    {16, "IQ2_XXS", {}},
    {17, "IQ2_XS", {}},
    {18, "IQ3_XXS", {}},
    {19, "IQ1_S", {}},
    {20, "IQ4_NL", DType::iq4_nl},
    {21, "IQ3_S", {}},
    {22, "IQ2_S", {}},
    {23, "IQ4_XS", {}},
    {24, "I8", DType::i8},
    {25, "I16", DType::i16},
    {26, "I32", DType::i32},
    {27, "I64", DType::i64},
    {28, "F64", DType::f64},
    {29, "IQ1_M", {}},
    {30, "BF16", DType::bf16},
    {31, "Q4_0_4_4, withdrawn", {}},
    {32, "Q4_0_4_8, withdrawn", {}},
    {33, "Q4_0_8_8, withdrawn", {}},
    {34, "TQ1_0", {}},
    {35, "TQ2_0", {}},
    {39, "MXFP4", {}},
    {40, "NVFP4", {}},
    {41, "Q1_0", {}},
    {42, "Q2_0", {}},
};

}  // namespace

std::optional<DType> gguf_tensor_type(std::uint32_t number) {
  for (const Known& known : kTypes) {
    if (known.number == number) return known.type;
  }
  return std::nullopt;
}

std::uint32_t gguf_type_number(DType type) {
  for (const Known& known : kTypes) {
    if (known.type == type) return known.number;
  }
  throw std::logic_error("GGUF has no elements of type " + std::string(tensor::name(type)));
}

std::string gguf_tensor_type_name(std::uint32_t number) {
  for (const Known& known : kTypes) {
    if (known.number == number) return std::to_string(number) + " (" + known.name + ")";
  }
  return std::to_string(number);
}

std::string gguf_supported_types() {
  std::string list;
  for (const Known& known : kTypes) {
    if (!known.type) continue;
    if (!list.empty()) list += ' ';
    list += known.name;
  }
  return list;
}

}  // namespace pastkv::formats
