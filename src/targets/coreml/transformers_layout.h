// The program that swift-transformers loads: one function with range sizes, see write.h. Private to the room.
#pragma once

#include "models/config.h"
#include "targets/coreml/lower.h"

namespace pastkv::targets::coreml {

struct StateSizes {
  std::int64_t layers = 0;
  std::int64_t heads = 0;     // the most of any layer
  std::int64_t head_dim = 0;  // likewise
  std::int64_t context = 0;
};

// Writes the function into `function` and says in `description` what it takes and gives.
void write_transformers_function(const graph::Graph& graph, const WeightOffsets& offsets, proto::DataType weight_type,
                                 CoremlPrecision precision, const StateSizes& states, proto::Function& function,
                                 proto::ModelDescription& description);

}  // namespace pastkv::targets::coreml
