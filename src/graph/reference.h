// The arithmetic of the interpreter: one plain function for each operation, tensors in, a tensor out. Sums are kept in
// double. Shapes are those that inference gave; only what depends on the data is checked here.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/interpreter.h"

namespace pastkv::graph::reference {

using Extents = std::vector<std::int64_t>;

std::size_t elements(const Extents& shape);
Tensor zeros(Extents shape);
inline std::size_t extent(const Tensor& x, std::size_t axis) {
  return static_cast<std::size_t>(x.shape[axis]);
}

// --- composite (reference_composite.cc) ---

// x [..., in], weight [out, in], bias [out] or null -> [..., out]
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor* bias);
// x [..., n], weight [n] -> [..., n]
Tensor rms_norm(const Tensor& x, const Tensor& weight, const NormAttributes& norm);
// x [..., n], weight [n], bias [n] or null -> [..., n]
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor* bias, const NormAttributes& norm);
// x [batch, query, heads, head_dim], positions [batch, query]
Tensor rope(const Tensor& x, const Tensor& positions, const RopeAttributes& rope, std::int64_t total_length);
// past [batch, heads, past, head_dim], x [batch, query, heads, head_dim] -> [batch, heads, past + query, head_dim]
Tensor state_update(const Tensor& past, const Tensor& x);
// q [batch, query, heads, head_dim], keys [batch, kv_heads, past + query, head_dim], values [.., value_dim]
// -> [batch, query, heads, value_dim]
struct AttentionMask {
  const Tensor* numbers = nullptr;  // broadcasts to [batch, heads, query, past + query]; null: no mask
  bool boolean = false;             // 0 and 1; else added to the scores
};
Tensor attention(const Tensor& q, const Tensor& keys, const Tensor& values, const AttentionAttributes& attributes,
                 const AttentionMask& mask = {});
Tensor activation(const Tensor& x, Activation kind);
Tensor softcap(const Tensor& x, float cap);
Tensor scale(const Tensor& x, float factor);

// --- primitive (reference_primitive.cc) ---

// table [n, ...], indices [...] -> [indices..., ...]. Throws Error when an index is outside the table.
Tensor gather(const Tensor& table, const Tensor& indices);
Tensor matmul(const Tensor& a, const Tensor& b);
Tensor transpose(const Tensor& x, const std::vector<int>& axes);
Tensor slice(const Tensor& x, int axis, std::int64_t begin, std::int64_t end);
// x with `update` over its elements from `begin` on. Throws Error when that reaches beyond x.
Tensor update_slice(const Tensor& x, const Tensor& update, const Tensor& begin);
Tensor concat(std::span<const Tensor* const> parts, int axis);
Tensor expand(const Tensor& x, const Extents& shape);
Tensor unary(Op op, const Tensor& x);
Tensor binary(Op op, const Tensor& a, const Tensor& b);
Tensor select(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor reduce(Op op, const Tensor& x, int axis);
Tensor cumulative_sum(const Tensor& x, int axis);
Tensor softmax(const Tensor& x);
Tensor range(std::int64_t length);
Tensor cast(const Tensor& x, tensor::DType to);

}  // namespace pastkv::graph::reference
