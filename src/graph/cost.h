// What a variant costs, by arithmetic alone: floating point operations, and bytes that must be read at least once.
#pragma once

#include <functional>

#include "graph/variant.h"

namespace pastkv::graph {

struct Cost {
  double flops = 0;         // of matrix products and attention, a multiply and an add are two; the rest is not counted
  double weight_bytes = 0;  // each weight read once; of a table that is only looked into, the rows looked up
  double state_bytes = 0;   // states: the positions that can be seen are read, those of this call written
};

// Attention counts the pairs of query and key that the mask lets through; a matmul of the expanded graph counts all.
// `stored_bytes` gives the bytes of a weight as it lies in its file.
Cost cost(const Graph& graph, const Variant& variant, tensor::DType state_dtype,
          const std::function<std::uint64_t(const Value& weight)>& stored_bytes);

}  // namespace pastkv::graph
