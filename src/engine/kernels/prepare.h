// Activations made ready for linear layers: a padded copy, or int8 with a scale per group of 32 and scaled sums.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/simd.h"

namespace pastkv::engine::PASTKV_KERNELS {

inline std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Of a column of float activations: floats from one column to the next; the padding is zero.
inline std::int64_t float_stride(std::int64_t depth) {
  return round_up(depth, 16);
}

// One column of int8 activations. Scales and sums are padded with zeros to whole eights of groups.
struct Q8Column {
  const std::uint8_t* q;  // [depth], signed
  const float* scale;     // [depth / 32]
  const float* sum;       // [depth / 32], of 32 values, times the scale
  const float* half_sum;  // [depth / 16]
};

struct Q8Layout {
  std::int64_t depth, groups;  // groups rounded up to a multiple of 8
  explicit Q8Layout(std::int64_t depth_) : depth(depth_), groups(round_up(depth_ / 32, 8)) {}

  std::int64_t stride() const {
    // Not a multiple of 4096, so that the columns of a tile do not share the sets of the first-level cache.
    const std::int64_t size = groups * 32 + groups * 4 * 4;
    return size % 4096 == 0 ? size + 64 : size;
  }
  Q8Column column(const std::uint8_t* prepared, std::int64_t index) const {
    const std::uint8_t* base = prepared + index * stride();
    const auto* scale = reinterpret_cast<const float*>(base + groups * 32);
    return {base, scale, scale + groups, scale + 2 * groups};
  }
};

inline void prepare_q8_column(const float* x, std::int64_t depth, std::uint8_t* column) {
  const Q8Layout layout(depth);
  auto* scales = reinterpret_cast<float*>(column + layout.groups * 32);
  float* sums = scales + layout.groups;
  float* half_sums = sums + layout.groups;
  for (std::int64_t group = 0; group < layout.groups; ++group) {
    std::uint8_t* q = column + group * 32;
    if (group >= depth / 32) {
      __builtin_memset(q, 0, 32);
      scales[group] = sums[group] = half_sums[2 * group] = half_sums[2 * group + 1] = 0.0F;
      continue;
    }
    const float* from = x + group * 32;
    F largest = absolute(load(from));
    for (int i = kLanes; i < 32; i += kLanes) largest = max_magnitude(largest, load(from + i));
    const float limit = maximum(largest);
    // Below this, 127 / limit overflows; such a group is zero for every purpose. NaN and infinity stay in the scale.
    const bool zero = limit < 0x1p-110F;
    const float scale = zero ? 0.0F : limit / 127.0F;
    quantize32(from, zero ? 0.0F : 127.0F / limit, q);
    std::int32_t halves[2];
    sum_halves(q, halves);
    scales[group] = scale;
    sums[group] = scale * static_cast<float>(halves[0] + halves[1]);
    half_sums[2 * group] = scale * static_cast<float>(halves[0]);
    half_sums[2 * group + 1] = scale * static_cast<float>(halves[1]);
  }
}

inline void prepare_float_column(const float* x, std::int64_t depth, float* column) {
  __builtin_memcpy(column, x, static_cast<std::size_t>(depth) * sizeof(float));
  for (std::int64_t k = depth; k < float_stride(depth); ++k) column[k] = 0.0F;
}

inline std::size_t prepared_bytes(Preparation kind, std::int64_t columns, std::int64_t depth) {
  if (kind == Preparation::q8) return static_cast<std::size_t>(columns * Q8Layout(depth).stride());
  return static_cast<std::size_t>(columns * float_stride(depth)) * sizeof(float);
}

inline void prepare(Preparation kind, const float* x, std::int64_t x_stride, std::int64_t, std::int64_t column_begin,
                    std::int64_t column_end, std::int64_t depth, std::byte* prepared) {
  for (std::int64_t c = column_begin; c < column_end; ++c) {
    const float* from = x + c * x_stride;
    if (kind == Preparation::q8) {
      prepare_q8_column(from, depth, reinterpret_cast<std::uint8_t*>(prepared) + c * Q8Layout(depth).stride());
    } else {
      prepare_float_column(from, depth, reinterpret_cast<float*>(prepared) + c * float_stride(depth));
    }
  }
}

}  // namespace pastkv::engine::PASTKV_KERNELS
