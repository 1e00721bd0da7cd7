// The kernel set of one instruction set: included once by each kernels_*.cc, which has defined PASTKV_KERNELS (the
// namespace) and PASTKV_SIMD (its vectors). No function of the standard library is instantiated here: the linker may
// keep its copy for code that must run on lesser processors.
#pragma once

#include "engine/kernels/attention.h"
#include "engine/kernels/elementwise.h"
#include "engine/kernels/float_tile.h"
#include "engine/kernels/panel.h"
#include "engine/kernels/prepare.h"
#include "engine/kernels/registry.h"
#include "engine/kernels/row_product.h"
#include "engine/kernels/simd.h"

namespace pastkv::engine::PASTKV_KERNELS {

// Calls one of the bodies with the format, or gives false when the type is no weight type.
template <typename Quantized, typename Plain>
inline bool with_format(tensor::DType type, Quantized quantized, Plain plain) {
  using tensor::DType;
  switch (type) {
    case DType::f32:
      return plain(F32{}), true;
    case DType::f16:
      return plain(F16{}), true;
    case DType::bf16:
      return plain(BF16{}), true;
    case DType::q4_0:
      return quantized(Q4_0{}), true;
    case DType::q4_1:
      return quantized(Q4_1{}), true;
    case DType::q5_0:
      return quantized(Q5_0{}), true;
    case DType::q5_1:
      return quantized(Q5_1{}), true;
    case DType::q8_0:
      return quantized(Q8_0{}), true;
    case DType::q2_k:
      return quantized(Q2_K{}), true;
    case DType::q3_k:
      return quantized(Q3_K{}), true;
    case DType::q4_k:
      return quantized(Q4_K{}), true;
    case DType::q5_k:
      return quantized(Q5_K{}), true;
    case DType::q6_k:
      return quantized(Q6_K{}), true;
    case DType::iq4_nl:
      return quantized(IQ4_NL{}), true;
    default:
      return false;
  }
}

inline Preparation preparation(tensor::DType type) {
  Preparation result = Preparation::f32;
  with_format(type, [&](auto) { result = Preparation::q8; }, [](auto) {});
  return result;
}

inline bool linear_supported(tensor::DType type) {
  return with_format(type, [](auto) {}, [](auto) {});
}

inline std::size_t linear_scratch_bytes(tensor::DType type, std::int64_t depth, std::int64_t columns) {
  std::size_t bytes = 0;
  with_format(
      type,
      [&]<typename Format>(Format) {
        bytes = columns > kFewColumns ? panel_bytes<Format>(depth)
                                      : static_cast<std::size_t>(columns) * pair_scratch_bytes<Format>(depth);
      },
      [&](auto) { bytes = columns > kFewColumns ? float_panel_bytes(depth) : 0; });
  return bytes;
}

inline void linear(const LinearTask& task, std::int64_t row_begin, std::int64_t row_end, std::byte* scratch) {
  const bool few = task.columns <= kFewColumns;
  with_format(
      task.type,
      [&]<typename Format>(Format) {
        if (!few) return quantized_panels<Format>(task, row_begin, row_end, scratch);
        for_column_tiles<kFewColumns>(task.columns, [&]<int kColumns>(Constant<kColumns>, std::int64_t column) {
          quantized_rows<Format, kColumns>(task, row_begin, row_end, column, scratch);
        });
      },
      [&]<typename Number>(Number) {
        if (!few) return float_panels<Number>(task, row_begin, row_end, scratch);
        for_column_tiles<kFewColumns>(task.columns, [&]<int kColumns>(Constant<kColumns>, std::int64_t column) {
          float_rows<Number, kColumns>(task, row_begin, row_end, column);
        });
      });
}

inline constexpr KernelSet kernel_set_named(std::string_view name, bool (*available)()) {
  return {.name = name,
          .available = available,
          .preparation = preparation,
          .prepared_bytes = prepared_bytes,
          .prepare = prepare,
          .linear_supported = linear_supported,
          .linear_row_multiple = kTileRows,
          .linear_scratch_bytes = linear_scratch_bytes,
          .linear = linear,
          .attention_row_tile = kAttentionRows,
          .attention_scratch_bytes = attention_scratch_bytes,
          .attention = attention,
          .rms_norm = rms_norm,
          .layer_norm = layer_norm,
          .activation = activation,
          .gated = gated,
          .add = add_rows,
          .multiply = multiply_rows,
          .scale = scale_row,
          .softcap = softcap_row,
          .rope = rope,
          .encode_cache = encode_cache,
          .decode_row = decode_any_row};
}

}  // namespace pastkv::engine::PASTKV_KERNELS
