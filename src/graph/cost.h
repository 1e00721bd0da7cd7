// What a variant costs, by arithmetic alone: floating point operations, and bytes that must be read at least once.
#pragma once

#include <functional>

#include "graph/variant.h"

namespace pastkv::graph {

struct Cost {
  double flops = 0;         // a multiply and an add are two
  double weight_bytes = 0;  // each weight read once; of an embedding only the rows looked up
  double state_bytes = 0;   // states read and written
};

// `stored_bytes` gives the bytes of a weight as it lies in its file.
Cost cost(const Graph& graph, const Variant& variant, tensor::DType state_dtype,
          const std::function<std::uint64_t(const Value& weight)>& stored_bytes);

}  // namespace pastkv::graph
