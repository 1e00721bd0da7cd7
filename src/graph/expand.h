// Rewrites composite operations into primitive ones. The expansion is the meaning of a composite operation.
//
// Numeric care is taken here, once, for every target: what is computed in f16 stays finite and close (norms divide by
// the largest element before they square, masked scores are finite, queries are scaled before they meet keys), and the
// angles of positions are marked as islands that stay f32.
#pragma once

#include <set>

#include "graph/graph.h"

namespace pastkv::graph {

struct ExpandOptions {
  std::set<Op> keep;  // composite operations that the target writes as they are
};

// A graph that speaks primitive operations (and those of both levels, and those kept), with the same inputs, outputs,
// states and weights. Masks and rotation angles are made once and shared. Throws std::logic_error when the graph has
// faults.
Graph expand(const Graph& graph, const ExpandOptions& options = {});

}  // namespace pastkv::graph
