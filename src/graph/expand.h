// Rewrites composite operations into primitive ones. The expansion is the meaning of a composite operation.
#pragma once

#include "graph/graph.h"

namespace pastkv::graph {

// A graph that speaks primitive operations only, with the same inputs, outputs, states and weights.
Graph expand(const Graph& graph);

}  // namespace pastkv::graph
