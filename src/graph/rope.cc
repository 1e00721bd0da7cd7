#include "graph/rope.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "graph/graph.h"

namespace pastkv::graph {
namespace {

// Dynamic NTK: the base grows with the total length L above the trained one,
//   base * (factor * L / trained - (factor - 1)) ^ (dim / (dim - 2)).
// Source: "dynamic" in transformers, modeling_rope_utils.py.
RopeTable dynamic_table(const RopeFrequencies& frequencies, std::int64_t total_length) {
  const auto pairs = frequencies.table.inverse_frequencies.size();
  const double dim = 2.0 * static_cast<double>(pairs);
  const double ratio = static_cast<double>(total_length) / static_cast<double>(frequencies.switch_length);
  const double growth = frequencies.factor * ratio - (frequencies.factor - 1.0);
  const double base = frequencies.base * std::pow(growth, dim / (dim - 2.0));

  RopeTable table{.inverse_frequencies = std::vector<float>(pairs), .scale = frequencies.table.scale};
  for (std::size_t i = 0; i < pairs; ++i) {
    table.inverse_frequencies[i] = static_cast<float>(std::pow(base, -2.0 * static_cast<double>(i) / dim));
  }
  return table;
}

}  // namespace

RopeTable RopeFrequencies::at(std::int64_t total_length) const {
  if (rule == RopeRule::fixed || total_length <= switch_length) return table;
  return rule == RopeRule::two_tables ? long_table : dynamic_table(*this, total_length);
}

bool RopeFrequencies::changes(std::int64_t length_before, std::int64_t length_after) const {
  switch (rule) {
    case RopeRule::fixed:
      return false;
    case RopeRule::two_tables:
      return (length_before > switch_length) != (length_after > switch_length);
    case RopeRule::dynamic:
      return std::max(length_before, switch_length) != std::max(length_after, switch_length);
  }
  return false;
}

bool rope_changes(const Graph& graph, std::int64_t length_before, std::int64_t length_after) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    const auto* rope = std::get_if<RopeAttributes>(&node.attributes);
    return rope != nullptr && rope->frequencies.changes(length_before, length_after);
  });
}

}  // namespace pastkv::graph
