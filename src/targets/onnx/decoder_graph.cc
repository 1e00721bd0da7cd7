#include "targets/onnx/decoder_graph.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace pastkv::targets {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::Op;
using graph::Symbol;
using graph::ValueId;
using tensor::DType;

ValueId add_value(Graph& graph, graph::Value value) {
  graph.values.push_back(std::move(value));
  return static_cast<ValueId>(graph.values.size()) - 1;
}

ValueId result(Graph& graph, const char* name, DType dtype, graph::Shape shape) {
  return add_value(graph, {.name = name, .dtype = dtype, .shape = std::move(shape)});
}

// Nodes that make position_ids: the tokens up to and with each, less one, of the last `query` columns.
std::vector<Node> positions_from(Graph& graph, ValueId mask, ValueId positions) {
  const Dim total = Dim(Symbol::past) + Symbol::query;
  const ValueId counts = result(graph, "token_counts", DType::i64, {Symbol::batch, total});
  const ValueId own = result(graph, "own_token_counts", DType::i64, {Symbol::batch, Symbol::query});
  const ValueId one = add_value(
      graph, {.kind = graph::ValueKind::constant, .name = "one_token", .dtype = DType::i64, .shape = {}, .data = {1}});
  graph.value(positions).kind = graph::ValueKind::result;
  std::erase(graph.inputs, positions);
  return {{Op::cumulative_sum, {mask}, {counts}, graph::AxisAttributes{.axis = 1}},
          {Op::slice, {counts}, {own}, graph::SliceAttributes{.axis = 1, .begin = Symbol::past, .end = total}},
          {Op::subtract, {own, one}, {positions}, {}}};
}

}  // namespace

Graph decoder_graph(Graph graph, bool position_ids) {
  const Dim total = Dim(Symbol::past) + Symbol::query;
  const ValueId ids = graph.find("input_ids");
  const ValueId positions = graph.find("position_ids");
  if (ids < 0 || positions < 0) throw std::logic_error("a decoder has the inputs input_ids and position_ids");

  const ValueId mask = add_value(graph, {.kind = graph::ValueKind::input,
                                         .name = "attention_mask",
                                         .dtype = DType::i64,
                                         .shape = {Symbol::batch, total}});
  const ValueId is_token = result(graph, "is_token", DType::boolean, {Symbol::batch, total});
  const ValueId seen = result(graph, "seen", DType::boolean, {Symbol::batch, 1, 1, total});
  std::vector<Node> nodes = {
      {Op::cast, {mask}, {is_token}, graph::CastAttributes{.dtype = DType::boolean}},
      {Op::reshape, {is_token}, {seen}, graph::ShapeAttributes{.shape = graph.value(seen).shape}}};
  graph.inputs = {ids, mask, positions};
  if (!position_ids) {
    for (Node& node : positions_from(graph, mask, positions)) nodes.push_back(std::move(node));
  }
  for (Node& node : graph.nodes) {
    if (node.op == Op::attention) node.inputs.push_back(seen);
    nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(nodes);
  return graph;
}

}  // namespace pastkv::targets
