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
  for (int i = 0; i < bytes; i += 64) {  // an address beyond the weights does no harm, but is no pointer
    prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(p) +
                                           static_cast<std::uintptr_t>(kPrefetchBytes + i)));
  }
}

// Sums of one row with kColumns columns, in two accumulators that alternate.
template <int kColumns>
struct RowSums {
  F8 even[kColumns], odd[kColumns];
  float minimum[kColumns] = {};  // to be taken away
  RowSums() {
    for (int c = 0; c < kColumns; ++c) even[c] = odd[c] = set8(0.0F);
  }
  float total(int c) const { return sum8(add8(even[c], odd[c])) - minimum[c]; }
};

// Eight groups of 32 with a scale each.
template <typename Format, int kColumns>
[[gnu::always_inline]] inline void add_groups(const std::uint8_t* row, std::int64_t group, const Q8Column* x,
                                              RowSums<kColumns>& sums) {
  const Scales scales = Format::scales(row, group, 8, InOrder{});
  Spread8 scale[kColumns];
  for (int c = 0; c < kColumns; ++c) {
    scale[c] = spread8(mul8(scales.scale, load8(x[c].scale + group)));
    if constexpr (Format::kBits < 8) {
      sums.even[c] = subtract_product8(scales.minimum, load8(x[c].sum + group), sums.even[c]);
    }
  }
  const std::uint8_t* block = row + group / Format::kGroups * Format::kBytes;
  unrolled<0, 8>([&]<int kIndex>(Constant<kIndex>) {
    const B32 w = Format::kGroups == 1 ? Format::template unpack<0>(block + kIndex * Format::kBytes)
                                       : Format::template unpack<kIndex>(block);
    for (int c = 0; c < kColumns; ++c) {
      const I8 product = dot32<Format::kBits>(w, load32(x[c].q + (group + kIndex) * 32));
      F8& sum = kIndex % 2 == 0 ? sums.even[c] : sums.odd[c];
      sum = fma8(to_float8(product), lane_of<kIndex>(scale[c]), sum);
    }
  });
}

// Eight blocks of one group each, two at a time: lanes 0 to 3 belong to an even block, 4 to 7 to the odd one after it.
// Activations come in that order, too (see pair_column).
template <typename Format, int kColumns>
[[gnu::always_inline]] inline void add_pairs(const std::uint8_t* row, std::int64_t group, const Q8Column* x,
                                             RowSums<kColumns>& sums) {
  const Scales scales = Format::scales(row, group, 8, EvenFirst{});
  F8 scale[kColumns];
  for (int c = 0; c < kColumns; ++c) {
    scale[c] = mul8(scales.scale, load8(x[c].scale + group));
    if constexpr (Format::kBits < 8) {
      sums.even[c] = subtract_product8(scales.minimum, load8(x[c].sum + group), sums.even[c]);
    }
  }
  unrolled<0, 4>([&]<int kPair>(Constant<kPair>) {
    const std::uint8_t* block = row + (group + 2 * kPair) * Format::kBytes;
    const BytePair w = Format::unpack_pair(block, block + Format::kBytes);
    for (int c = 0; c < kColumns; ++c) {
      const std::uint8_t* q = x[c].q + (group + 2 * kPair) * 32;
      const I8 product = dot_pair<Format::kBits>(w.first, load32(q), w.last, load32(q + 32));
      F8& sum = kPair % 2 == 0 ? sums.even[c] : sums.odd[c];
      sum = fma8(to_float8(product), lane_of_each_half<kPair>(scale[c]), sum);
    }
  });
}

// The groups that are left at a row's end, fewer than eight.
template <typename Format, int kColumns>
inline void add_rest(const std::uint8_t* row, std::int64_t group, std::int64_t groups, const Q8Column* x,
                     RowSums<kColumns>& sums) {
  for (; group < groups; ++group) {
    const std::uint8_t* block = row + group * Format::kBytes;
    const BlockScale scale = Format::scale(block);
    const B32 w = Format::template unpack<0>(block);
    for (int c = 0; c < kColumns; ++c) {
      const I8 product = dot32<Format::kBits>(w, load32(x[c].q + group * 32));
      sums.odd[c] = fma8(to_float8(product), set8(scale.scale * x[c].scale[group]), sums.odd[c]);
      if constexpr (Format::kBits < 8) sums.minimum[c] += scale.minimum * x[c].sum[group];
    }
  }
}

// A block of 256 whose halves of groups have whole-number scales.
template <typename Format, int kColumns>
[[gnu::always_inline]] inline void add_half_groups(const std::uint8_t* block, std::int64_t group, const Q8Column* x,
                                                   RowSums<kColumns>& sums) {
  const HalfScales scales = Format::scales(block);
  Spread8 scale[kColumns];
  for (int c = 0; c < kColumns; ++c) {
    scale[c] = spread8(mul8(set8(scales.super), load8(x[c].scale + group)));
    const float* half_sum = x[c].half_sum + 2 * group;
    sums.even[c] = subtract_product8(scales.minimum[0], load8(half_sum), sums.even[c]);
    sums.odd[c] = subtract_product8(scales.minimum[1], load8(half_sum + 8), sums.odd[c]);
  }
  unrolled<0, 8>([&]<int kIndex>(Constant<kIndex>) {
    const B32 w = Format::template unpack<kIndex>(block);
    for (int c = 0; c < kColumns; ++c) {
      const I8 product = dot32_scaled<kIndex>(w, load32(x[c].q + (group + kIndex) * 32), scales.scale);
      F8& sum = kIndex % 2 == 0 ? sums.even[c] : sums.odd[c];
      sum = fma8(to_float8(product), lane_of<kIndex>(scale[c]), sum);
    }
  });
}

// A column whose whole eights of groups are in the order of add_pairs, copied to `out`; the rest is as it was.
inline Q8Column pair_column(const Q8Column& x, std::int64_t groups, std::uint8_t* out) {
  const std::int64_t whole = groups / 8 * 8;
  auto* scale = reinterpret_cast<float*>(out + groups * 32);
  float* sum = scale + groups;
  for (std::int64_t group = 0; group < groups; ++group) {
    const bool paired = group < whole;
    const std::int64_t from = paired ? group / 8 * 8 + static_cast<std::int64_t>(EvenFirst::at(group % 8)) : group;
    scale[group] = x.scale[from];
    sum[group] = x.sum[from];
    for (std::int64_t part = 0; part < 2; ++part) {  // half `part` of group 2 i + j goes to half j of place 2 i + part
      const std::int64_t to = paired ? (group / 2 * 2 + part) * 32 + group % 2 * 16 : group * 32 + part * 16;
      __builtin_memcpy(out + to, x.q + group * 32 + part * 16, 16);
    }
  }
  return {out, scale, sum, nullptr};
}

template <typename Format>
inline std::size_t pair_scratch_bytes(std::int64_t depth) {
  return Format::kPaired ? static_cast<std::size_t>(depth / 32 * (32 + 2 * 4)) : 0;
}

template <typename Format, int kColumns>
void quantized_rows(const LinearTask& task, std::int64_t row_begin, std::int64_t row_end, std::int64_t column,
                    std::byte* scratch) {
  const Q8Layout layout(task.depth);
  const std::int64_t groups = task.depth / 32;
  Q8Column x[kColumns];
  for (int c = 0; c < kColumns; ++c) {
    x[c] = layout.column(reinterpret_cast<const std::uint8_t*>(task.prepared), column + c);
    if constexpr (Format::kPaired) {
      auto* to = reinterpret_cast<std::uint8_t*>(scratch) +
                 static_cast<std::size_t>(c) * pair_scratch_bytes<Format>(task.depth);
      x[c] = pair_column(x[c], groups, to);
    }
  }
  for (std::int64_t r = row_begin; r < row_end; ++r) {
    const auto* row = reinterpret_cast<const std::uint8_t*>(task.weights) + r * task.row_bytes;
    RowSums<kColumns> sums;
    std::int64_t group = 0;
    for (; group + 8 <= groups; group += 8) {
      const std::uint8_t* block = row + group / Format::kGroups * Format::kBytes;
      prefetch_ahead(block, Format::kGroups == 1 ? 8 * Format::kBytes : Format::kBytes);
      if constexpr (Format::kHalves) {
        add_half_groups<Format>(block, group, x, sums);
      } else if constexpr (Format::kPaired) {
        add_pairs<Format>(row, group, x, sums);
      } else {
        add_groups<Format>(row, group, x, sums);
      }
    }
    if constexpr (Format::kGroups == 1) add_rest<Format>(row, group, groups, x, sums);
    for (int c = 0; c < kColumns; ++c) finish(task, r, column + c, sums.total(c));
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

// One row at a time: a single stream of weights, which the processor's own prefetch follows best.
template <typename Number, int kColumns>
void float_rows(const LinearTask& task, std::int64_t row_begin, std::int64_t row_end, std::int64_t column) {
  const float* x[kColumns];
  for (int c = 0; c < kColumns; ++c) {
    x[c] = reinterpret_cast<const float*>(task.prepared) + (column + c) * float_stride(task.depth);
  }
  for (std::int64_t r = row_begin; r < row_end; ++r) {
    const auto* row = reinterpret_cast<const std::uint8_t*>(task.weights) + r * task.row_bytes;
    RowSums<kColumns> sums;
    std::int64_t k = 0;
    for (; k + 16 <= task.depth; k += 16) {
      const std::uint8_t* p = row + k * Number::kBytes;
      if (k * Number::kBytes % 64 == 0) prefetch_ahead(p, 64);
      const F8 even = Number::load(p);
      const F8 odd = Number::load(p + 8 * Number::kBytes);
      for (int c = 0; c < kColumns; ++c) {
        sums.even[c] = fma8(even, load8(x[c] + k), sums.even[c]);
        sums.odd[c] = fma8(odd, load8(x[c] + k + 8), sums.odd[c]);
      }
    }
    for (; k < task.depth; k += 8) {
      const std::int64_t left = task.depth - k < 8 ? task.depth - k : 8;
      const F8 w = load_partial<Number>(row + k * Number::kBytes, left);
      for (int c = 0; c < kColumns; ++c) sums.even[c] = fma8(w, load8(x[c] + k), sums.even[c]);
    }
    for (int c = 0; c < kColumns; ++c) finish(task, r, column + c, sums.total(c));
  }
}

}  // namespace pastkv::engine::PASTKV_KERNELS
