// Linear layers of quantized weights for many columns. A tile of rows is unpacked once into a panel that stays in the
// cache, with the rows side by side (lane = row), and multiplied with every column.
//
// A panel holds, for each group of 32 weights:
//   formats with one scale per group: float scale[kTileRows], minimum[kTileRows]
//   formats with two (kHalves):       float super[kTileRows], minimum[2][kTileRows], i16 scale[2][kTileRows][2]
//   q[8][kTileRows][4]                four consecutive weights of each row
// With kUnsignedWeights, 8-bit weights have 128 added to them, and the minimum takes it away again.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/block_formats.h"
#include "engine/kernels/prepare.h"
#include "engine/kernels/row_product.h"
#include "engine/kernels/simd.h"

namespace pastkv::engine::PASTKV_KERNELS {

inline constexpr int kTileRows = 2 * kLanes;
static_assert(kTileRows % 8 == 0);

// What formats with like quants share: a panel of Q4_K is multiplied as one of Q4_0 is.
template <int kQuantBits, bool kTwoScales>
struct PanelKind {
  static constexpr int kBits = kQuantBits;
  static constexpr bool kHalves = kTwoScales;
  static constexpr bool kMinimum = kBits < 8 || kUnsignedWeights;
  static constexpr int kRowBytes = kTileRows * 4;  // of a number per row
  static constexpr int kMinimumAt = kRowBytes;
  static constexpr int kScaleAt = 3 * kRowBytes;  // kHalves only
  static constexpr int kWeightsAt = kHalves ? 5 * kRowBytes : 2 * kRowBytes;
  static constexpr int kBytes = kWeightsAt + 8 * kRowBytes;
};
template <typename Format>
using PanelGroup = PanelKind<(Format::kBits < 4 ? 4 : Format::kBits), Format::kHalves>;

inline void put_float(std::uint8_t* p, float value) {
  __builtin_memcpy(p, &value, sizeof(value));
}

template <typename Format>
inline void put_scales(const std::uint8_t* row, std::int64_t group, int count, std::uint8_t* out) {
  using Group = PanelGroup<Format>;
  if constexpr (Format::kHalves) {
    const HalfScales scales = Format::scales(row + group / Format::kGroups * Format::kBytes);
    std::int16_t scale[16];
    float minimum[16];
    store_scales(scale, scales.scale);
    store8(minimum, scales.minimum[0]);
    store8(minimum + 8, scales.minimum[1]);
    for (int g = 0; g < 8; ++g, out += Group::kBytes) {
      put_float(out, scales.super);
      for (int half = 0; half < 2; ++half) {
        const std::int16_t pair[2] = {scale[2 * g + half], scale[2 * g + half]};
        put_float(out + Group::kMinimumAt + half * Group::kRowBytes, minimum[2 * g + half]);
        __builtin_memcpy(out + Group::kScaleAt + half * Group::kRowBytes, pair, sizeof(pair));
      }
    }
  } else {
    Scales scales = Format::scales(row, group, count, InOrder{});
    if constexpr (Format::kBits == 8) scales.minimum = mul8(scales.scale, set8(128.0F));
    float scale[8], minimum[8];
    store8(scale, scales.scale);
    store8(minimum, scales.minimum);
    for (int g = 0; g < count; ++g, out += Group::kBytes) {
      put_float(out, scale[g]);
      put_float(out + Group::kMinimumAt, minimum[g]);
    }
  }
}

// Unpacks kTileRows rows (the last valid one again where there are fewer).
template <typename Format>
void fill_panel(const LinearTask& task, std::int64_t first_row, std::int64_t row_end, std::uint8_t* panel) {
  using Group = PanelGroup<Format>;
  const std::int64_t groups = task.depth / 32;
  for (int tile_row = 0; tile_row < kTileRows; tile_row += 8) {
    const std::uint8_t* row[8];
    for (int r = 0; r < 8; ++r) {
      const std::int64_t wanted = first_row + tile_row + r;
      row[r] = reinterpret_cast<const std::uint8_t*>(task.weights) +
               (wanted < row_end ? wanted : row_end - 1) * task.row_bytes;
    }
    for (std::int64_t group = 0; group < groups; group += 8) {
      const auto count = static_cast<int>(groups - group < 8 ? groups - group : 8);
      std::uint8_t* out = panel + group * Group::kBytes + 4 * tile_row;
      for (int r = 0; r < 8; ++r) put_scales<Format>(row[r], group, count, out + 4 * r);
      unrolled<0, 8>([&]<int kIndex>(Constant<kIndex>) {
        if (kIndex >= count) return;
        B32 unpacked[8];
        for (int r = 0; r < 8; ++r) {
          const std::uint8_t* block = row[r] + group / Format::kGroups * Format::kBytes;
          unpacked[r] = Format::kGroups == 1 ? Format::template unpack<0>(block + kIndex * Format::kBytes)
                                             : Format::template unpack<kIndex>(block);
          if constexpr (Format::kBits == 8 && kUnsignedWeights) unpacked[r] = flip_sign(unpacked[r]);
        }
        store_transposed(unpacked, out + kIndex * Group::kBytes + Group::kWeightsAt, Group::kRowBytes);
      });
    }
  }
}

// Products of kSteps times four weights of a tile with each column, as far as they add up without overflow. `x` are the
// columns' activations that belong to the first weights.
template <int kBits, int kSteps, int kColumns>
[[gnu::always_inline]] inline void chain(const std::uint8_t* weights, const std::uint8_t* const (&x)[kColumns],
                                         P (&p)[kColumns][2]) {
  const auto add_step = [&](int step, auto first) __attribute__((always_inline)) {
    const auto w0 = load_weights<kBits>(weights + step * kTileRows * 4);
    const auto w1 = load_weights<kBits>(weights + step * kTileRows * 4 + kLanes * 4);
    for (int c = 0; c < kColumns; ++c) {
      const X activations = broadcast4(x[c] + 4 * step);
      p[c][0] = first.value ? products<kBits>(w0, activations) : products<kBits>(w0, activations, p[c][0]);
      p[c][1] = first.value ? products<kBits>(w1, activations) : products<kBits>(w1, activations, p[c][1]);
    }
  };
  add_step(0, Constant<1>{});
#pragma GCC unroll 1
  for (int step = 1; step < kSteps; ++step) add_step(step, Constant<0>{});
}

// Products of one group of 32, whole numbers.
template <typename Group, int kColumns>
[[gnu::always_inline]] inline void group_products(const std::uint8_t* group, const std::uint8_t* const (&x)[kColumns],
                                                  I (&total)[kColumns][2]) {
  constexpr int kMost = kChain<Group::kBits>;
  constexpr int kSteps = Group::kHalves && kMost > 4 ? 4 : kMost;
  unrolled<0, 8 / kSteps>([&]<int kPart>(Constant<kPart>) __attribute__((always_inline)) {
    const std::uint8_t* part[kColumns];
    for (int c = 0; c < kColumns; ++c) part[c] = x[c] + kPart * kSteps * 4;
    P p[kColumns][2];
    chain<Group::kBits, kSteps>(group + Group::kWeightsAt + kPart * kSteps * kTileRows * 4, part, p);
    for (int c = 0; c < kColumns; ++c) {
      for (int v = 0; v < 2; ++v) {
        I wide;
        if constexpr (Group::kHalves) {
          constexpr int kHalf = kPart * kSteps / 4;
          wide = widen_scaled(p[c][v], group + Group::kScaleAt + kHalf * Group::kRowBytes + v * kLanes * 4);
        } else {
          wide = widen<Group::kBits>(p[c][v]);
        }
        total[c][v] = kPart == 0 ? wide : add(total[c][v], wide);
      }
    }
  });
}

inline F load_row_floats(const std::uint8_t* p) {
  return load(reinterpret_cast<const float*>(p));
}

template <typename Group, int kColumns>
void multiply_tile(const std::uint8_t* panel, std::int64_t groups, const Q8Column* x, F (&sums)[kColumns][2]) {
  F sum[kColumns][2];
  for (int c = 0; c < kColumns; ++c) sum[c][0] = sum[c][1] = set1(0.0F);
  const std::uint8_t* group = panel;
  for (std::int64_t g = 0; g < groups; ++g, group += Group::kBytes) {
    const std::uint8_t* q[kColumns];
    for (int c = 0; c < kColumns; ++c) q[c] = x[c].q + g * 32;
    I total[kColumns][2];
    group_products<Group>(group, q, total);
    for (int c = 0; c < kColumns; ++c) {
      const F x_scale = set1(x[c].scale[g]);
      for (int v = 0; v < 2; ++v) {
        const std::uint8_t* numbers = group + v * kLanes * 4;
        sum[c][v] = fma(to_float(total[c][v]), mul(load_row_floats(numbers), x_scale), sum[c][v]);
        if constexpr (Group::kHalves) {
          for (int half = 0; half < 2; ++half) {
            const F minimum = load_row_floats(numbers + Group::kMinimumAt + half * Group::kRowBytes);
            sum[c][v] = subtract_product(minimum, set1(x[c].half_sum[2 * g + half]), sum[c][v]);
          }
        } else if constexpr (Group::kMinimum) {
          sum[c][v] = subtract_product(load_row_floats(numbers + Group::kMinimumAt), set1(x[c].sum[g]), sum[c][v]);
        }
      }
    }
  }
  for (int c = 0; c < kColumns; ++c) {
    for (int v = 0; v < 2; ++v) sums[c][v] = sum[c][v];
  }
}

// Finishes a tile: `rows` of its kTileRows are wanted.
template <int kColumns>
inline void finish_tile(const LinearTask& task, std::int64_t row, std::int64_t rows, std::int64_t column,
                        const F (&sums)[kColumns][2]) {
  for (int c = 0; c < kColumns; ++c) {
    for (int v = 0; v < 2; ++v) {
      const std::int64_t first = row + v * kLanes;
      float* y = task.y + (column + c) * task.y_stride + first;
      if (rows >= (v + 1) * kLanes) {
        F value = sums[c][v];
        if (task.bias != nullptr) value = add(value, load(task.bias + first));
        store(y, task.accumulate ? add(load(y), value) : value);
      } else {
        float value[kLanes];
        store(value, sums[c][v]);
        for (std::int64_t r = 0; r < rows - v * kLanes; ++r) finish(task, first + r, column + c, value[r]);
      }
    }
  }
}

// Tiles of rows unpacked together, so that the activations of a few columns are fetched once for all of them: as many
// as leave room in a second-level cache.
template <typename Format>
inline std::int64_t panel_tiles(std::int64_t depth) {
  constexpr std::int64_t kMostBytes = 192 * 1024, kMostTiles = 4;
  const std::int64_t tiles = kMostBytes / (depth / 32 * PanelGroup<Format>::kBytes);
  return tiles < 1 ? 1 : tiles > kMostTiles ? kMostTiles : tiles;
}

template <typename Format>
inline std::size_t panel_bytes(std::int64_t depth) {
  return static_cast<std::size_t>(panel_tiles<Format>(depth) * (depth / 32) * PanelGroup<Format>::kBytes);
}

template <typename Format>
void quantized_panels(const LinearTask& task, std::int64_t row_begin, std::int64_t row_end, std::byte* scratch) {
  using Group = PanelGroup<Format>;
  auto* panel = reinterpret_cast<std::uint8_t*>(scratch);
  const Q8Layout layout(task.depth);
  const std::int64_t groups = task.depth / 32;
  const std::int64_t step = panel_tiles<Format>(task.depth) * kTileRows;
  for (std::int64_t row = row_begin; row < row_end; row += step) {
    const std::int64_t end = row_end - row < step ? row_end : row + step;
    for (std::int64_t first = row; first < end; first += kTileRows) {
      fill_panel<Format>(task, first, row_end, panel + (first - row) / kTileRows * groups * Group::kBytes);
    }
    for_column_tiles<kTileColumns>(task.columns, [&]<int kColumns>(Constant<kColumns>, std::int64_t column) {
      Q8Column x[kColumns];
      for (int c = 0; c < kColumns; ++c) {
        x[c] = layout.column(reinterpret_cast<const std::uint8_t*>(task.prepared), column + c);
      }
      for (std::int64_t first = row; first < end; first += kTileRows) {
        F sums[kColumns][2];
        multiply_tile<Group>(panel + (first - row) / kTileRows * groups * Group::kBytes, groups, x, sums);
        finish_tile(task, first, end - first < kTileRows ? end - first : kTileRows, column, sums);
      }
    });
  }
}

}  // namespace pastkv::engine::PASTKV_KERNELS
