// Shape inference and the verifier. A graph that passes can be run by anyone without a further check of its structure.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace pastkv::graph {

// Shapes of a node's outputs from those of its inputs. Throws std::logic_error saying what does not fit.
std::vector<Shape> infer_shapes(const Graph& graph, const Node& node);

// Element type of a node's outputs (all have the same). Throws std::logic_error when those of its inputs do not fit.
tensor::DType infer_dtype(const Graph& graph, const Node& node);

// Every fault found, one line each; empty when there is none: dangling or repeated ids, values used before they are
// made, wrong number of inputs, wrong attributes, shapes that do not follow, states used by the wrong operation or
// written twice, names that repeat, outputs that are not made.
std::vector<std::string> faults(const Graph& graph);

}  // namespace pastkv::graph
