// Matrix products of plain floats: the micro-kernel under linear layers of f32, f16 and bf16 weights for many columns,
// and under attention.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/panel.h"
#include "engine/kernels/prepare.h"
#include "engine/kernels/row_product.h"
#include "engine/kernels/simd.h"

namespace pastkv::engine::PASTKV_KERNELS {

// sums[i][v] = sum over k of a[i * a_stride + k] * b[k * b_stride + v * kLanes + lane].
template <int kRows>
[[gnu::always_inline]] inline void multiply_floats(const float* a, std::int64_t a_stride, const float* b,
                                                   std::int64_t b_stride, std::int64_t depth, F (&sums)[kRows][2]) {
  F sum[kRows][2];
  for (int i = 0; i < kRows; ++i) sum[i][0] = sum[i][1] = set1(0.0F);
  for (std::int64_t k = 0; k < depth; ++k) {
    const F left = load(b + k * b_stride);
    const F right = load(b + k * b_stride + kLanes);
    for (int i = 0; i < kRows; ++i) {
      const F factor = set1(a[i * a_stride + k]);
      sum[i][0] = fma(factor, left, sum[i][0]);
      sum[i][1] = fma(factor, right, sum[i][1]);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < 2; ++v) sums[i][v] = sum[i][v];
  }
}

// The widest panel of float rows: some tiles at once, so that activations are read from afar once for all of them.
inline constexpr std::int64_t kFloatPanelTiles = 4;
inline constexpr std::int64_t kFloatPanelDepth = 512;

inline std::int64_t float_panel_depth(std::int64_t depth) {  // even cuts of the depth
  const std::int64_t parts = (depth + kFloatPanelDepth - 1) / kFloatPanelDepth;
  return round_up((depth + parts - 1) / parts, 8);
}

inline std::size_t float_panel_bytes(std::int64_t depth) {
  return static_cast<std::size_t>(kFloatPanelTiles * kTileRows * float_panel_depth(depth)) * sizeof(float);
}

// Decodes weights [first_row, first_row + kTileRows) x [k_begin, k_end) to panel[k][kTileRows].
template <typename Number>
void fill_float_panel(const LinearTask& task, std::int64_t first_row, std::int64_t row_end, std::int64_t k_begin,
                      std::int64_t k_end, float* panel) {
  for (int tile_row = 0; tile_row < kTileRows; tile_row += 8) {
    const std::uint8_t* row[8];
    for (int r = 0; r < 8; ++r) {
      const std::int64_t wanted = first_row + tile_row + r;
      row[r] = reinterpret_cast<const std::uint8_t*>(task.weights) +
               (wanted < row_end ? wanted : row_end - 1) * task.row_bytes;
    }
    for (std::int64_t k = k_begin; k < k_end; k += 8) {
      B32 decoded[8];
      for (int r = 0; r < 8; ++r) {
        const std::uint8_t* p = row[r] + k * Number::kBytes;
        decoded[r] = as_bytes(k + 8 <= task.depth ? Number::load(p) : load_partial<Number>(p, task.depth - k));
      }
      float* out = panel + (k - k_begin) * kTileRows + tile_row;
      store_transposed(decoded, reinterpret_cast<std::uint8_t*>(out), kTileRows * sizeof(float));
    }
  }
}

template <typename Number>
void float_panels(const LinearTask& task, std::int64_t row_begin, std::int64_t row_end, std::byte* scratch) {
  auto* panel = reinterpret_cast<float*>(scratch);
  const std::int64_t x_stride = float_stride(task.depth);
  const auto* x = reinterpret_cast<const float*>(task.prepared);
  const std::int64_t step = float_panel_depth(task.depth);
  for (std::int64_t row = row_begin; row < row_end; row += kFloatPanelTiles * kTileRows) {
    for (std::int64_t k = 0; k < task.depth; k += step) {
      const std::int64_t k_end = k + step < round_up(task.depth, 8) ? k + step : round_up(task.depth, 8);
      LinearTask part = task;  // the first part starts the sums, the others add to them
      if (k > 0) {
        part.accumulate = true;
        part.bias = nullptr;
      }
      const std::int64_t rows_left = row_end - row;
      const std::int64_t tiles_left = (rows_left + kTileRows - 1) / kTileRows;
      const std::int64_t tiles = tiles_left < kFloatPanelTiles ? tiles_left : kFloatPanelTiles;
      for (std::int64_t tile = 0; tile < tiles; ++tile) {
        fill_float_panel<Number>(task, row + tile * kTileRows, row_end, k, k_end, panel + tile * kTileRows * step);
      }
      for_column_tiles<kFloatTile>(task.columns, [&]<int kColumns>(Constant<kColumns>, std::int64_t column) {
        for (std::int64_t tile = 0; tile < tiles; ++tile) {
          F sums[kColumns][2];
          multiply_floats<kColumns>(x + column * x_stride + k, x_stride, panel + tile * kTileRows * step, kTileRows,
                                    k_end - k, sums);
          const std::int64_t rows = rows_left - tile * kTileRows;
          finish_tile(part, row + tile * kTileRows, rows < kTileRows ? rows : kTileRows, column, sums);
        }
      });
    }
  }
}

}  // namespace pastkv::engine::PASTKV_KERNELS
