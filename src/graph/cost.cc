#include "graph/cost.h"

#include <algorithm>
#include <map>
#include <set>

namespace pastkv::graph {
namespace {

double elements(const Shape& shape, const Sizes& sizes) {
  double count = 1;
  for (const Dim& dim : shape) count *= static_cast<double>(dim.at(sizes));
  return count;
}

// Pairs of query and key that see each other: query i of this call sees min(past + i + 1, window) keys.
double visible_pairs(const Sizes& sizes, std::int64_t window) {
  const std::int64_t growing =  // queries whose view still grows, as it is no full window yet
      window == 0 ? sizes.query : std::clamp<std::int64_t>(window - sizes.past, 0, sizes.query);
  const auto g = static_cast<double>(growing);
  return g * static_cast<double>(sizes.past) + g * (g + 1) / 2 +
         static_cast<double>(sizes.query - growing) * static_cast<double>(window);
}

double flops_of(const Graph& graph, const Node& node, const Sizes& sizes) {
  const auto shape = [&](std::size_t input) -> const Shape& { return graph.value(node.inputs[input]).shape; };
  const Shape& out = graph.value(node.outputs[0]).shape;
  switch (node.op) {
    case Op::linear:
    case Op::matmul:
      return 2 * elements(out, sizes) * static_cast<double>(shape(0).back().at(sizes));
    case Op::attention: {
      const auto heads = static_cast<double>(out[2].constant());
      const auto widths = static_cast<double>(shape(1)[3].constant() + shape(2)[3].constant());  // of a key and a value
      const std::int64_t window = std::get<AttentionAttributes>(node.attributes).window;
      return 2 * static_cast<double>(sizes.batch) * heads * visible_pairs(sizes, window) * widths;
    }
    default:
      return 0;
  }
}

// Input that is a table of which rows are looked up, or -1.
int table_input(Op op) {
  if (op == Op::embedding) return 1;
  return op == Op::gather ? 0 : -1;
}

double weight_bytes(const Graph& graph, const Sizes& sizes,
                    const std::function<std::uint64_t(const Value& weight)>& stored_bytes) {
  std::set<ValueId> whole;
  std::map<ValueId, double> rows_looked_up;
  for (const Node& node : graph.nodes) {
    const int table = table_input(node.op);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (graph.value(node.inputs[i]).kind != ValueKind::weight) continue;
      if (static_cast<int>(i) == table) {
        rows_looked_up[node.inputs[i]] += elements(graph.value(node.inputs[1 - i]).shape, sizes);
      } else {
        whole.insert(node.inputs[i]);
      }
    }
  }
  double bytes = 0;
  for (const ValueId id : whole) bytes += static_cast<double>(stored_bytes(graph.value(id)));
  for (const auto& [id, rows] : rows_looked_up) {
    const Value& table = graph.value(id);
    if (whole.contains(id)) continue;
    const auto all = static_cast<double>(table.shape[0].constant());
    bytes += static_cast<double>(stored_bytes(table)) * std::min(rows, all) / all;
  }
  return bytes;
}

double state_traffic(const Graph& graph, const Sizes& sizes, tensor::DType state_dtype) {
  double bytes = 0;
  for (const State& state : graph.states) {
    const std::int64_t read = kept_positions(state, sizes.past);
    const std::int64_t written = state.window == 0 ? sizes.query : std::min(sizes.query, state.window);
    bytes += static_cast<double>(sizes.batch) * static_cast<double>(read + written) *
             static_cast<double>(position_bytes(graph, state, state_dtype));
  }
  return bytes;
}

}  // namespace

Cost cost(const Graph& graph, const Variant& variant, tensor::DType state_dtype,
          const std::function<std::uint64_t(const Value& weight)>& stored_bytes) {
  Cost total;
  for (const Node& node : graph.nodes) total.flops += flops_of(graph, node, variant.sizes);
  total.weight_bytes = weight_bytes(graph, variant.sizes, stored_bytes);
  total.state_bytes = state_traffic(graph, variant.sizes, state_dtype);
  return total;
}

}  // namespace pastkv::graph
