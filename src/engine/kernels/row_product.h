// Linear layers for few columns: each row of weights is read once, straight from its own format.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/block_formats.h"
#include "engine/kernels/prepare.h"
#include "engine/kernels/simd.h"

namespace pastkv::engine::PASTKV_KERNELS {

inline constexpr int kFewColumns = 4;

// What a linear layer does with a finished sum.
inline void finish(const LinearTask& task, std::int64_t row, std::int64_t column, float value) {
  float* y = task.y + column * task.y_stride + row;
  if (task.bias != nullptr) value += task.bias[row];
  *y = task.accumulate ? *y + value : value;
}

// How far ahead of the weights in use the next ones are asked for: the processor's own prefetch stops at a page's end.
inline constexpr std::int64_t kPrefetchBytes = 1024;

inline void prefetch_ahead(const std::uint8_t* p, int bytes) {
  for (int i = 0; i < bytes; i += 64) {
    prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(p) + kPrefetchBytes +
                                           static_cast<std::uintptr_t>(i)));
  }
}

// Sums of one row with kColumns columns, in two accumulators that alternate.
template <int kColumns>
struct RowSums {
  F8 even[kColumns], odd[kColumns];
  RowSums() {
    for (int c = 0; c < kColumns; ++c) even[c] = odd[c] = set8(0.0F);
  }
};

// Groups of 32 with a scale each: eight groups from `group` on, or fewer at a row's end.
template <typename Format, int kColumns>
inline void add_groups(const std::uint8_t* row, std::int64_t group, int count, const Q8Column* x,
                       RowSums<kColumns>& sums) {
  const Scales scales = Format::scales(row, group, count);
  alignas(32) float scale[kColumns][8];
  for (int c = 0; c < kColumns; ++c) {
    store8(scale[c], mul8(scales.scale, load8(x[c].scale + group)));
    if constexpr (Format::kBits < 8) {
      sums.even[c] = subtract_product8(scales.minimum, load8(x[c].sum + group), sums.even[c]);
    }
  }
  const std::uint8_t* block = row + group / Format::kGroups * Format::kBytes;
  auto one = [&]<int kIndex>(Constant<kIndex>) {
    const B32 w = Format::kGroups == 1 ? Format::template unpack<0>(block + kIndex * Format::kBytes)
                                       : Format::template unpack<kIndex>(block);
    for (int c = 0; c < kColumns; ++c) {
      const I8 product = dot32<Format::kBits>(w, load32(x[c].q + (group + kIndex) * 32));
      F8& sum = kIndex % 2 == 0 ? sums.even[c] : sums.odd[c];
      sum = fma8(to_float8(product), set8(scale[c][kIndex]), sum);
    }
  };
  if (count == 8) {
    unrolled<0, 8>(one);
  } else {
    unrolled<0, 7>([&](auto index) {
      if (index.value < count) one(index);
    });
  }
}

// A block of 256 whose halves of groups have whole-number scales.
template <typename Format, int kColumns>
inline void add_half_groups(const std::uint8_t* block, std::int64_t group, const Q8Column* x, RowSums<kColumns>& sums) {
  const HalfScales scales = Format::scales(block);
  const S16 whole = load_scales(scales.scale);
  alignas(32) float scale[kColumns][8];
  for (int c = 0; c < kColumns; ++c) {
    store8(scale[c], mul8(set8(scales.super), load8(x[c].scale + group)));
    const float* half_sum = x[c].half_sum + 2 * group;
    sums.even[c] = subtract_product8(load8(scales.minimum), load8(half_sum), sums.even[c]);
    sums.odd[c] = subtract_product8(load8(scales.minimum + 8), load8(half_sum + 8), sums.odd[c]);
  }
  unrolled<0, 8>([&]<int kIndex>(Constant<kIndex>) {
    const B32 w = Format::template unpack<kIndex>(block);
    for (int c = 0; c < kColumns; ++c) {
      const I8 product = dot32_scaled<kIndex>(w, load32(x[c].q + (group + kIndex) * 32), whole);
      F8& sum = kIndex % 2 == 0 ? sums.even[c] : sums.odd[c];
      sum = fma8(to_float8(product), set8(scale[c][kIndex]), sum);
    }
  });
}

template <typename Format, int kColumns>
void quantized_rows(const LinearTask& task, std::int64_t row_begin, std::int64_t row_end, std::int64_t column) {
  const Q8Layout layout(task.depth);
  Q8Column x[kColumns];
  for (int c = 0; c < kColumns; ++c) {
    x[c] = layout.column(reinterpret_cast<const std::uint8_t*>(task.prepared), column + c);
  }
  const std::int64_t groups = task.depth / 32;
  for (std::int64_t r = row_begin; r < row_end; ++r) {
    const auto* row = reinterpret_cast<const std::uint8_t*>(task.weights) + r * task.row_bytes;
    RowSums<kColumns> sums;
    for (std::int64_t group = 0; group < groups; group += 8) {
      const std::uint8_t* block = row + group / Format::kGroups * Format::kBytes;
      prefetch_ahead(block, Format::kGroups == 1 ? 8 * Format::kBytes : Format::kBytes);
      if constexpr (Format::kHalves) {
        add_half_groups<Format>(block, group, x, sums);
      } else {
        const auto count = static_cast<int>(groups - group < 8 ? groups - group : 8);
        add_groups<Format>(row, group, count, x, sums);
      }
    }
    for (int c = 0; c < kColumns; ++c) finish(task, r, column + c, sum8(add8(sums.even[c], sums.odd[c])));
  }
}

// Plain numbers.
struct F32 {
  static constexpr int kBytes = 4;
  static F8 load(const std::uint8_t* p) { return load8(reinterpret_cast<const float*>(p)); }
};
struct F16 {
  static constexpr int kBytes = 2;
  static F8 load(const std::uint8_t* p) { return load8_f16(p); }
};
struct BF16 {
  static constexpr int kBytes = 2;
  static F8 load(const std::uint8_t* p) { return load8_bf16(p); }
};

template <typename Number>
inline F8 load_partial(const std::uint8_t* p, std::int64_t count) {  // zeros from `count` on
  std::uint8_t padded[8 * Number::kBytes] = {};
  __builtin_memcpy(padded, p, static_cast<std::size_t>(count) * Number::kBytes);
  return Number::load(padded);
}

template <typename Number, int kRows, int kColumns>
inline void float_row_tile(const LinearTask& task, std::int64_t first_row, std::int64_t column) {
  const std::uint8_t* row[kRows];
  RowSums<kColumns> sums[kRows];
  const float* x[kColumns];
  for (int r = 0; r < kRows; ++r) {
    row[r] = reinterpret_cast<const std::uint8_t*>(task.weights) + (first_row + r) * task.row_bytes;
  }
  for (int c = 0; c < kColumns; ++c) {
    x[c] = reinterpret_cast<const float*>(task.prepared) + (column + c) * float_stride(task.depth);
  }
  std::int64_t k = 0;
  for (; k + 16 <= task.depth; k += 16) {
    for (int r = 0; r < kRows; ++r) {
      const std::uint8_t* p = row[r] + k * Number::kBytes;
      if (k % 32 == 0) prefetch_ahead(p, 64);
      const F8 even = Number::load(p);
      const F8 odd = Number::load(p + 8 * Number::kBytes);
      for (int c = 0; c < kColumns; ++c) {
        sums[r].even[c] = fma8(even, load8(x[c] + k), sums[r].even[c]);
        sums[r].odd[c] = fma8(odd, load8(x[c] + k + 8), sums[r].odd[c]);
      }
    }
  }
  for (; k < task.depth; k += 8) {
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t left = task.depth - k < 8 ? task.depth - k : 8;
      const F8 w = load_partial<Number>(row[r] + k * Number::kBytes, left);
      for (int c = 0; c < kColumns; ++c) sums[r].even[c] = fma8(w, load8(x[c] + k), sums[r].even[c]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) {
      finish(task, first_row + r, column + c, sum8(add8(sums[r].even[c], sums[r].odd[c])));
    }
  }
}

template <typename Number, int kColumns>
void float_rows(const LinearTask& task, std::int64_t row_begin, std::int64_t row_end, std::int64_t column) {
  constexpr int kRows = kColumns == 1 ? 4 : 2;
  std::int64_t r = row_begin;
  for (; r + kRows <= row_end; r += kRows) float_row_tile<Number, kRows, kColumns>(task, r, column);
  for (; r < row_end; ++r) float_row_tile<Number, 1, kColumns>(task, r, column);
}

}  // namespace pastkv::engine::PASTKV_KERNELS
