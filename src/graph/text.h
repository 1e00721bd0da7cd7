// The text form of a graph, for people and for tests: one line per value or node, stable from run to run.
#pragma once

#include <string>

#include "graph/graph.h"

namespace pastkv::graph {

// Precondition: the graph has no faults (verify.h).
std::string to_text(const Graph& graph);

}  // namespace pastkv::graph
