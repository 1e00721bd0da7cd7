// The plan: a graph turned into a short list of fused steps over row-major activations [tokens, width].
//
// Views (reshape, split, pick_rows) cost nothing: they are operands that look into another's rows. Work that goes row
// by row is joined into one block, so that a block is one parallel region. Linears that read the same activations run
// as one group. A residual add is folded into the linear before it. Only the rows whose logits are asked for are
// computed after the last state was written.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <variant>
#include <vector>

#include "base/thread_pool.h"
#include "engine/executor.h"
#include "engine/kernels/kernel_set.h"

namespace pastkv::engine {

// Columns [offset, offset + width) of every row of a slot.
struct Operand {
  int slot = -1;
  std::int64_t offset = 0;
  std::int64_t width = 0;
};

// A buffer [rows, stride] of floats. Reused by values that do not live at the same time and have the same stride, so
// that a row of one never covers another row of the other.
struct Slot {
  std::int64_t stride = 0;
  bool logits_rows = false;  // holds only the rows whose logits are asked for
};

// Which tokens of a call a step works on.
enum class Rows : std::uint8_t { all, logits };

struct EmbeddingOp {
  tensor::DType type;
  const std::byte* table;
  std::int64_t row_bytes;
  Operand y;
};
struct NormOp {
  bool centred;
  Operand x;
  const float* weight;
  const float* bias;
  std::int64_t group;
  float epsilon;
  float weight_offset;
  Operand y;
};
struct RopeOp {
  int rope;
  std::int64_t head_dim;
  Operand x;
  Operand y;
};
struct StoreOp {
  int state;
  Operand x;
};  // appends to a state
struct ActivationOp {
  graph::Activation kind;
  Operand x;
  Operand y;
};
struct GatedOp {
  graph::Activation kind;
  Operand gate;
  Operand up;
  Operand y;
};
struct SoftcapOp {
  float cap;
  Operand x;
  Operand y;
};
struct ScaleOp {
  float factor;
  Operand x;
  Operand y;
};
struct AddOp {
  Operand a;
  Operand b;
  Operand y;
};
struct MultiplyOp {
  Operand a;
  Operand b;
  Operand y;
};
struct PrepareOp {
  Preparation kind;
  Operand x;
};  // for the linear group that follows

using RowOp = std::variant<EmbeddingOp, NormOp, RopeOp, StoreOp, ActivationOp, GatedOp, SoftcapOp, ScaleOp, AddOp,
                           MultiplyOp, PrepareOp>;

struct RowBlock {
  Rows rows = Rows::all;
  std::vector<RowOp> ops;
};

struct Linear {
  tensor::DType type;
  const std::byte* weights;
  std::int64_t row_bytes;
  std::int64_t depth;
  std::int64_t out_rows;
  const float* bias;
  Operand y;
  bool accumulate;
};

struct LinearGroup {
  Rows rows = Rows::all;
  std::vector<Linear> members;
};

struct Attend {
  Rows rows = Rows::all;
  Operand q;
  Operand y;
  int keys = 0;  // states
  int values = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  graph::AttentionAttributes attributes;
};

using Step = std::variant<RowBlock, LinearGroup, Attend>;

struct StateShape {
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t window = 0;
};

struct Engine::Plan {
  Plan(const models::Model& model_in, const EngineOptions& options);

  const models::Model& model;
  const KernelSet& kernels;
  mutable ThreadPool pool;
  std::vector<Step> steps;
  std::vector<Slot> slots;
  std::vector<StateShape> states;
  std::vector<graph::RopeAttributes> ropes;
  int logits_slot = -1;
  std::int64_t vocab = 0;
  std::vector<std::vector<float>> vectors;  // norm weights and biases as fp32; matrices are never copied
};

}  // namespace pastkv::engine
