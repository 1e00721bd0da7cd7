// Attention with an online softmax (Milakov and Gimelshein 2018): keys and values are decoded a tile at a time, every
// query row of the task meets the tile while it is in the cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/block_formats.h"
#include "engine/kernels/elementwise.h"
#include "engine/kernels/float_tile.h"
#include "engine/kernels/functions.h"
#include "engine/kernels/simd.h"

namespace pastkv::engine::PASTKV_KERNELS {

inline constexpr int kKeyTile = 64;
inline constexpr std::int64_t kAttentionRows = 32;

inline std::int64_t padded_head(std::int64_t head_dim) {
  return round_up(head_dim, 2 * kLanes);
}

// Where the parts of the scratch lie; `rows` counts every row of every head.
struct AttentionScratch {
  float* keys;     // [head_dim][kKeyTile]
  float* values;   // [kKeyTile][padded head_dim]
  float* queries;  // [rows][head_dim], scaled
  float* scores;   // [rows][kKeyTile]
  float* out;      // [rows][padded head_dim], not yet divided by `total`
  float* highest;  // [rows], score so far
  float* total;    // [rows], of exp(score - highest)
};

inline std::size_t attention_scratch_bytes(std::int64_t head_dim, std::int64_t rows, std::int64_t heads) {
  const std::int64_t width = padded_head(head_dim);
  const std::int64_t all_rows = rows * heads;
  return static_cast<std::size_t>(2 * width * kKeyTile + all_rows * (2 * width + kKeyTile) +
                                  round_up(all_rows, 16) * 2) *
         sizeof(float);
}

inline AttentionScratch attention_scratch(const AttentionTask& task, std::byte* scratch) {
  const std::int64_t width = padded_head(task.head_dim);
  const std::int64_t rows = task.rows * task.heads;
  AttentionScratch s;
  s.keys = reinterpret_cast<float*>(scratch);
  s.values = s.keys + width * kKeyTile;
  s.queries = s.values + width * kKeyTile;
  s.out = s.queries + width * rows;
  s.scores = s.out + width * rows;
  s.highest = s.scores + rows * kKeyTile;
  s.total = s.highest + round_up(rows, 16);
  return s;
}

// Decodes a row of the cache and pads it with zeros to `width` floats.
inline void decode_cache(tensor::DType type, const std::byte* row, std::int64_t n, std::int64_t width, float* out) {
  const auto* p = reinterpret_cast<const std::uint8_t*>(row);
  for (std::int64_t i = n; i < width; ++i) out[i] = 0.0F;
  switch (type) {
    case tensor::DType::f32:
      __builtin_memcpy(out, p, static_cast<std::size_t>(n) * sizeof(float));
      return;
    case tensor::DType::q8_0:
      for (std::int64_t i = 0; i < n; i += 32, p += Q8_0::kBytes) {
        const F scale = set1(half(p));
        for (int j = 0; j < 32; j += kLanes) store(out + i + j, mul(load_i8(p + 2 + j), scale));
      }
      return;
    default:
      for_lanes(n, [&](std::int64_t i, int count) {
        const std::uint8_t* from = p + 2 * i;
        std::uint8_t padded[2 * kLanes] = {};
        if (count < kLanes) {
          __builtin_memcpy(padded, from, static_cast<std::size_t>(count) * 2);
          from = padded;
        }
        store_some(out + i, type == tensor::DType::f16 ? load_f16(from) : load_bf16(from), count);
      });
  }
}

// The positions that any row of the task, or one row, may see.
struct Positions {
  std::int64_t begin, end;
};
inline Positions visible(const AttentionTask& task, std::int64_t first_row, std::int64_t last_row) {
  const std::int64_t oldest = task.window > 0 ? task.query_position + first_row - task.window + 1 : 0;
  return {oldest > task.first_position ? oldest : task.first_position, task.query_position + last_row + 1};
}

// Decodes the tile of keys [begin, begin + count), dimension by dimension, and of values.
inline void decode_tile(const AttentionTask& task, std::int64_t begin, int count, const AttentionScratch& s) {
  const std::int64_t width = padded_head(task.head_dim);
  for (int key = 0; key < kKeyTile; key += 8) {
    if (key >= round_up(count, 2 * kLanes)) break;
    // The rows of `values` are free until the values come: eight rows of keys wait there for their transposition.
    for (int i = 0; i < 8; ++i) {
      float* row = s.values + i * width;
      if (key + i < count) {
        const std::int64_t offset = (begin + key + i - task.first_position) * task.position_bytes;
        decode_cache(task.cache_type, task.keys + offset, task.head_dim, width, row);
      } else {
        __builtin_memset(row, 0, static_cast<std::size_t>(width) * sizeof(float));
      }
    }
    for (std::int64_t d = 0; d < width; d += 8) {
      B32 rows[8];
      for (int i = 0; i < 8; ++i) rows[i] = as_bytes(load8(s.values + i * width + d));
      store_transposed(rows, reinterpret_cast<std::uint8_t*>(s.keys + d * kKeyTile + key), kKeyTile * sizeof(float));
    }
  }
  for (int i = 0; i < count; ++i) {
    const std::int64_t offset = (begin + i - task.first_position) * task.position_bytes;
    decode_cache(task.cache_type, task.values + offset, task.head_dim, width, s.values + i * width);
  }
}

inline void score_tile(std::int64_t rows, std::int64_t head_dim, int count, const AttentionScratch& s) {
  for_column_tiles<kFloatTile>(rows, [&]<int kRows>(Constant<kRows>, std::int64_t row) {
    for (int key = 0; key < count; key += 2 * kLanes) {
      F sums[kRows][2];
      multiply_floats<kRows>(s.queries + row * head_dim, head_dim, s.keys + key, kKeyTile, head_dim, sums);
      for (int i = 0; i < kRows; ++i) {
        for (int v = 0; v < 2; ++v) store(s.scores + (row + i) * kKeyTile + key + v * kLanes, sums[i][v]);
      }
    }
  });
}

// Turns the scores of a row to weights relative to the highest so far; [first, last) of the tile's keys are visible.
inline void weigh_row(const AttentionTask& task, std::int64_t row, int first, int last, int count,
                      const AttentionScratch& s) {
  float* scores = s.scores + row * kKeyTile;
  const auto padded = static_cast<int>(round_up(count, kLanes));
  if (task.softcap != 0.0F) {
    for (int i = 0; i < padded; i += kLanes) store(scores + i, capped(load(scores + i), task.softcap));
  }
  for (int i = 0; i < first; ++i) scores[i] = -kInfinity;
  for (int i = last; i < padded; ++i) scores[i] = -kInfinity;
  float highest = s.highest[row];
  F most = set1(highest);
  for (int i = 0; i < padded; i += kLanes) most = max(load(scores + i), most);
  float lane[kLanes];
  store(lane, most);
  for (int i = 0; i < kLanes; ++i) highest = lane[i] > highest ? lane[i] : highest;

  F total = set1(0.0F);
  for (int i = 0; i < padded; i += kLanes) {
    const F weight = exponential(sub(load(scores + i), set1(highest)));
    store(scores + i, weight);
    total = add(total, weight);
  }
  if (highest != s.highest[row]) {  // what was added so far was relative to another
    const std::int64_t width = padded_head(task.head_dim);
    store(lane, exponential(set1(s.highest[row] - highest)));
    for (std::int64_t d = 0; d < width; d += kLanes) {
      store(s.out + row * width + d, mul(load(s.out + row * width + d), set1(lane[0])));
    }
    s.total[row] *= lane[0];
    s.highest[row] = highest;
  }
  s.total[row] += sum(total);
}

inline void weigh_tile(const AttentionTask& task, std::int64_t begin, int count, const AttentionScratch& s) {
  for (std::int64_t i = 0; i < task.rows; ++i) {
    const Positions range = visible(task, i, i);
    const std::int64_t first = range.begin - begin < 0 ? 0 : range.begin - begin;
    const std::int64_t last = range.end - begin > count ? count : range.end - begin;
    for (std::int64_t h = 0; h < task.heads; ++h) {
      const std::int64_t row = h * task.rows + i;
      if (first < last) {
        weigh_row(task, row, static_cast<int>(first), static_cast<int>(last), count, s);
      } else {
        __builtin_memset(s.scores + row * kKeyTile, 0, kKeyTile * sizeof(float));
      }
    }
  }
}

inline void add_values(std::int64_t rows, std::int64_t width, int count, const AttentionScratch& s) {
  for_column_tiles<kFloatTile>(rows, [&]<int kRows>(Constant<kRows>, std::int64_t row) {
    for (std::int64_t d = 0; d < width; d += 2 * kLanes) {
      F sums[kRows][2];
      multiply_floats<kRows>(s.scores + row * kKeyTile, kKeyTile, s.values + d, width, count, sums);
      for (int i = 0; i < kRows; ++i) {
        for (int v = 0; v < 2; ++v) {
          float* out = s.out + (row + i) * width + d + v * kLanes;
          store(out, add(load(out), sums[i][v]));
        }
      }
    }
  });
}

// A single query row per head reads keys and values as they lie in the cache: decoding a tile to memory would cost more
// than it saves. Whole vectors of the cache's types:
struct CacheF32 {
  static F load(const std::uint8_t* row, std::int64_t i) {
    return PASTKV_KERNELS::load(reinterpret_cast<const float*>(row) + i);
  }
};
struct CacheF16 {
  static F load(const std::uint8_t* row, std::int64_t i) { return load_f16(row + 2 * i); }
};
struct CacheBF16 {
  static F load(const std::uint8_t* row, std::int64_t i) { return load_bf16(row + 2 * i); }
};
struct CacheQ8 {
  static F load(const std::uint8_t* row, std::int64_t i) {
    const std::uint8_t* block = row + i / 32 * Q8_0::kBytes;
    return mul(load_i8(block + 2 + i % 32), set1(half(block)));
  }
};

inline const std::uint8_t* cache_row(const std::byte* rows, const AttentionTask& task, std::int64_t position) {
  return reinterpret_cast<const std::uint8_t*>(rows) + (position - task.first_position) * task.position_bytes;
}

template <typename Cache, int kHeads>
inline void score_keys(const AttentionTask& task, std::int64_t head, std::int64_t begin, int count,
                       const AttentionScratch& s) {
  for (int key = 0; key < count; ++key) {
    const std::uint8_t* row = cache_row(task.keys, task, begin + key);
    F sums[kHeads];
    for (int h = 0; h < kHeads; ++h) sums[h] = set1(0.0F);
    for (std::int64_t d = 0; d < task.head_dim; d += kLanes) {
      const F k = Cache::load(row, d);
      for (int h = 0; h < kHeads; ++h) sums[h] = fma(k, load(s.queries + (head + h) * task.head_dim + d), sums[h]);
    }
    for (int h = 0; h < kHeads; ++h) s.scores[(head + h) * kKeyTile + key] = sum(sums[h]);
  }
}

template <typename Cache, int kHeads, int kVectors>
inline void add_values_at(const AttentionTask& task, std::int64_t head, std::int64_t begin, int count, std::int64_t d,
                          const AttentionScratch& s) {
  const std::int64_t width = padded_head(task.head_dim);
  F sums[kHeads][kVectors];
  for (int h = 0; h < kHeads; ++h) {
    for (int v = 0; v < kVectors; ++v) sums[h][v] = load(s.out + (head + h) * width + d + v * kLanes);
  }
  for (int key = 0; key < count; ++key) {
    const std::uint8_t* row = cache_row(task.values, task, begin + key);
    F values[kVectors];
    for (int v = 0; v < kVectors; ++v) values[v] = Cache::load(row, d + v * kLanes);
    for (int h = 0; h < kHeads; ++h) {
      const F weight = set1(s.scores[(head + h) * kKeyTile + key]);
      for (int v = 0; v < kVectors; ++v) sums[h][v] = fma(weight, values[v], sums[h][v]);
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    for (int v = 0; v < kVectors; ++v) store(s.out + (head + h) * width + d + v * kLanes, sums[h][v]);
  }
}

template <typename Cache>
void attend_directly(const AttentionTask& task, const AttentionScratch& s) {
  const Positions range = visible(task, 0, 0);
  for (std::int64_t begin = range.begin; begin < range.end; begin += kKeyTile) {
    const auto count = static_cast<int>(range.end - begin < kKeyTile ? range.end - begin : kKeyTile);
    for_column_tiles<4>(task.heads, [&]<int kHeads>(Constant<kHeads>, std::int64_t head) {
      score_keys<Cache, kHeads>(task, head, begin, count, s);
    });
    weigh_tile(task, begin, count, s);
    for_column_tiles<4>(task.heads, [&]<int kHeads>(Constant<kHeads>, std::int64_t head) {
      std::int64_t d = 0;
      for (; d + 2 * kLanes <= task.head_dim; d += 2 * kLanes) {
        add_values_at<Cache, kHeads, 2>(task, head, begin, count, d, s);
      }
      if (d < task.head_dim) add_values_at<Cache, kHeads, 1>(task, head, begin, count, d, s);
    });
  }
}

inline void attend_directly(const AttentionTask& task, const AttentionScratch& s) {
  switch (task.cache_type) {
    case tensor::DType::f32:
      return attend_directly<CacheF32>(task, s);
    case tensor::DType::f16:
      return attend_directly<CacheF16>(task, s);
    case tensor::DType::bf16:
      return attend_directly<CacheBF16>(task, s);
    default:
      return attend_directly<CacheQ8>(task, s);
  }
}

inline void attend_in_tiles(const AttentionTask& task, const AttentionScratch& s) {
  const std::int64_t rows = task.rows * task.heads;
  const Positions range = visible(task, 0, task.rows - 1);
  for (std::int64_t begin = range.begin; begin < range.end; begin += kKeyTile) {
    const auto count = static_cast<int>(range.end - begin < kKeyTile ? range.end - begin : kKeyTile);
    decode_tile(task, begin, count, s);
    score_tile(rows, task.head_dim, count, s);
    weigh_tile(task, begin, count, s);
    add_values(rows, padded_head(task.head_dim), count, s);
  }
}

inline void attention(const AttentionTask& task, std::byte* scratch) {
  const AttentionScratch s = attention_scratch(task, scratch);
  const std::int64_t width = padded_head(task.head_dim);
  const std::int64_t rows = task.rows * task.heads;
  for (std::int64_t h = 0; h < task.heads; ++h) {
    for (std::int64_t i = 0; i < task.rows; ++i) {
      const std::int64_t row = h * task.rows + i;
      scale_row(task.q + h * task.q_head_stride + i * task.q_stride, task.scale, task.head_dim,
                s.queries + row * task.head_dim);
      s.highest[row] = -kInfinity;
      s.total[row] = 0.0F;
    }
  }
  for (std::int64_t i = 0; i < rows * width; ++i) s.out[i] = 0.0F;

  // The number of rows alone decides, so that it does not matter how heads are grouped.
  if (task.rows == 1 && task.head_dim % kLanes == 0) {
    attend_directly(task, s);
  } else {
    attend_in_tiles(task, s);
  }
  for (std::int64_t h = 0; h < task.heads; ++h) {
    for (std::int64_t i = 0; i < task.rows; ++i) {
      const std::int64_t row = h * task.rows + i;
      scale_row(s.out + row * width, 1.0F / s.total[row], task.head_dim,
                task.out + h * task.out_head_stride + i * task.out_stride);
    }
  }
}

}  // namespace pastkv::engine::PASTKV_KERNELS
