// Keeps the residual stream of a graph inside f16.
//
// Some published models (OpenELM, Gemma 3) add up residuals of several hundred thousand, where f16 ends at 65504. Norms
// do not care how large their input is, so the whole stream can be held as a fraction of itself.
#pragma once

#include "graph/graph.h"

namespace pastkv::graph {

// Far above what published models reach (some 1e6), and small enough that little of a stream falls below f16.
inline constexpr float kResidualScale = 64.0F;

// The same graph with the values that are added to one another (and the sums) divided by `factor`, a power of two: what
// enters the stream is made smaller before a matrix product could overflow, norms that read it have their epsilon
// scaled with it, and any other reader gets the true number. The results are the same. Composite graphs only. Throws
// std::logic_error when the graph has faults.
Graph scale_residual(const Graph& graph, float factor);

}  // namespace pastkv::graph
