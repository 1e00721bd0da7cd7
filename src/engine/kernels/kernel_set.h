// The inner loops, once per instruction set, behind one table of functions. Nothing outside this folder names an
// instruction set. All kernel sets compute the same thing; each is testable by name on any machine that has it.
//
// A result does not depend on how rows or columns are cut among calls: each output element is summed in an order that
// its own row and column alone decide, for a given class of the number of columns (few, or many). Scratch and prepared
// activations are aligned to 64 bytes; everything else lies at any alignment that its type allows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "graph/graph.h"
#include "tensor/dtype.h"

namespace pastkv::engine {

// How activations must be made ready for weights of a type: as they are, or as int8 with a scale per 32.
enum class Preparation : std::uint8_t { f32, q8 };

// y[c * y_stride + r] = sum over k of W[r][k] * x[c][k] (+ bias[r]), for r in [row_begin, row_end) and every column c.
struct LinearTask {
  tensor::DType type;        // of the weights
  const std::byte* weights;  // row 0; rows are contiguous, row_bytes apart, at any alignment
  std::int64_t row_bytes;
  std::int64_t depth;         // k; a multiple of the type's block
  const std::byte* prepared;  // `columns` activations, made by prepare()
  std::int64_t columns;
  const float* bias;  // [rows] or null
  float* y;           // [columns, y_stride]
  std::int64_t y_stride;
  bool accumulate;  // add to y instead of overwriting it (residual)
};

// Attention of the query heads that share one key/value head, for a tile of query rows. Keys and values of that head
// lie one position after the other. Query and output must not overlap.
struct AttentionTask {
  const float* q;  // row i of head h at q + h * q_head_stride + i * q_stride, [head_dim]
  std::int64_t q_stride;
  std::int64_t q_head_stride;
  float* out;  // likewise
  std::int64_t out_stride;
  std::int64_t out_head_stride;
  tensor::DType cache_type;  // f32, f16, bf16 or q8_0
  const std::byte* keys;     // position p at keys + (p - first_position) * position_bytes
  const std::byte* values;
  std::int64_t position_bytes;  // from one position to the next
  std::int64_t first_position;  // of the first key held
  std::int64_t query_position;  // of row 0; row i sits at query_position + i
  std::int64_t rows;
  std::int64_t heads;  // any number of the heads of the group: a task may take them all, or one
  std::int64_t head_dim;
  std::int64_t window;  // 0: none
  float scale;
  float softcap;  // 0: none
};

struct KernelSet {
  std::string_view name;  // "portable", "avx2", "avx512", "avx512_vnni", "neon"
  bool (*available)();    // on this processor

  Preparation (*preparation)(tensor::DType type);
  std::size_t (*prepared_bytes)(Preparation kind, std::int64_t columns, std::int64_t depth);
  // Columns [column_begin, column_end) of x[c][depth] (at x + c * x_stride) into `prepared`, laid out for `columns`.
  void (*prepare)(Preparation kind, const float* x, std::int64_t x_stride, std::int64_t columns,
                  std::int64_t column_begin, std::int64_t column_end, std::int64_t depth, std::byte* prepared);

  bool (*linear_supported)(tensor::DType type);
  std::int64_t linear_row_multiple;  // best multiple to cut rows by
  std::size_t (*linear_scratch_bytes)(tensor::DType type, std::int64_t depth, std::int64_t columns);  // per thread
  void (*linear)(const LinearTask& task, std::int64_t row_begin, std::int64_t row_end, std::byte* scratch);

  std::int64_t attention_row_tile;  // best number of query rows in a task
  std::size_t (*attention_scratch_bytes)(std::int64_t head_dim, std::int64_t rows, std::int64_t heads);  // per thread
  void (*attention)(const AttentionTask& task, std::byte* scratch);

  // x and y may be the same buffer in all of these.
  void (*rms_norm)(const float* x, const float* weight, float weight_offset, float epsilon, std::int64_t n, float* y);
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float epsilon, std::int64_t n, float* y);
  void (*activation)(graph::Activation kind, const float* x, std::int64_t n, float* y);
  void (*gated)(graph::Activation kind, const float* gate, const float* up, std::int64_t n, float* y);  // act(gate)*up
  void (*add)(const float* a, const float* b, std::int64_t n, float* y);
  void (*multiply)(const float* a, const float* b, std::int64_t n, float* y);
  void (*scale)(const float* x, float factor, std::int64_t n, float* y);
  void (*softcap)(const float* x, float cap, std::int64_t n, float* y);
  // One head: x[0, rotary_dim) rotates by cos and sin [rotary_dim / 2]; the rest up to head_dim is copied.
  void (*rope)(const float* x, const float* cosine, const float* sine, std::int64_t rotary_dim, std::int64_t head_dim,
               bool interleaved, float* y);
  // A row of floats to and from a cache type (f32, f16, bf16, q8_0).
  void (*encode_cache)(tensor::DType type, const float* x, std::int64_t n, std::byte* out);
  void (*decode_row)(tensor::DType type, const std::byte* row, std::int64_t n, float* out);  // any weight type
};

std::span<const KernelSet* const> kernel_sets();          // all compiled in, best first; "portable" is always there
const KernelSet& best_kernel_set();                       // best available; PASTKV_KERNELS=<name> overrides
const KernelSet* find_kernel_set(std::string_view name);  // null when it is not compiled in

}  // namespace pastkv::engine
