// Rewrites composite operations into primitive ones. The expansion is the meaning of a composite operation.
//
// Numeric care is taken here, once, for every target: what is computed in f16 stays finite and close (norms divide by
// the largest element before they square, masked scores are finite, queries are scaled before they meet keys), and the
// angles of positions are marked as islands that stay f32.
#pragma once

#include "graph/graph.h"

namespace pastkv::graph {

// A graph that speaks primitive operations only (and those of both levels), with the same inputs, outputs, states and
// weights. Masks and rotation angles are made once and shared. Throws std::logic_error when the graph has faults.
Graph expand(const Graph& graph);

}  // namespace pastkv::graph
