#include "graph/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "graph/verify.h"

namespace pastkv::graph {

using tensor::DType;

Builder::Builder(std::string name) {
  graph_.name = std::move(name);
}

ValueId Builder::add_value(Value value) {
  if (value.name.empty()) throw std::logic_error("a value needs a name");
  const auto id = static_cast<ValueId>(graph_.values.size());
  if (!ids_.emplace(value.name, id).second) throw std::logic_error(fmt::format("two values named {}", value.name));
  graph_.values.push_back(std::move(value));
  return id;
}

ValueId Builder::input(std::string name, DType dtype, Shape shape) {
  const ValueId id = add_value({ValueKind::input, std::move(name), dtype, std::move(shape), {}});
  graph_.inputs.push_back(id);
  return id;
}

ValueId Builder::weight(std::string name, Shape shape) {
  if (const auto known = ids_.find(name); known != ids_.end()) {
    const Value& value = graph_.value(known->second);
    if (value.kind != ValueKind::weight || value.shape != shape) {
      throw std::logic_error(fmt::format("weight {} {} is already {}", name, text(shape), text(value.shape)));
    }
    return known->second;
  }
  return add_value({ValueKind::weight, std::move(name), DType::f32, std::move(shape), {}});
}

ValueId Builder::constant(std::string name, Shape shape, std::vector<double> data, DType dtype) {
  return add_value({ValueKind::constant, std::move(name), dtype, std::move(shape), std::move(data)});
}

ValueId Builder::state(std::string name, StateRole role, int layer, std::int64_t heads, std::int64_t head_dim,
                       std::int64_t window, Dim batch) {
  const ValueId id = add_value(
      {ValueKind::state, std::move(name), DType::f32, {std::move(batch), heads, Symbol::context, head_dim}, {}});
  graph_.states.push_back({.value = id, .role = role, .layer = layer, .window = window});
  return id;
}

ValueId Builder::buffer(std::string name, Shape shape) {
  const auto before = std::ranges::count(graph_.states, StateRole::buffer, &State::role);
  const ValueId id = add_value({ValueKind::state, std::move(name), DType::f32, std::move(shape), {}});
  graph_.states.push_back({.value = id, .role = StateRole::buffer, .layer = static_cast<int>(before), .window = 0});
  return id;
}

std::vector<ValueId> Builder::emit(Op op, std::vector<ValueId> inputs, Attributes attributes, int outputs) {
  Node node{.op = op, .inputs = std::move(inputs), .outputs = {}, .attributes = std::move(attributes)};
  std::vector<Shape> shapes = infer_shapes(graph_, node);
  const DType dtype = infer_dtype(graph_, node);
  if (std::cmp_not_equal(shapes.size(), outputs)) {
    throw std::logic_error(fmt::format("{} gives {} results, not {}", name(op), shapes.size(), outputs));
  }
  std::string base;
  do {
    base = fmt::format("{}_{}", name(op), counts_[op]++);
  } while (ids_.contains(base) || ids_.contains(base + ".0"));
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    std::string result = shapes.size() == 1 ? base : fmt::format("{}.{}", base, i);
    node.outputs.push_back(add_value({ValueKind::result, std::move(result), dtype, std::move(shapes[i]), {}}));
  }
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back().outputs;
}

ValueId Builder::embedding(ValueId ids, ValueId table) {
  return emit(Op::embedding, {ids, table}).front();
}

ValueId Builder::linear(ValueId x, ValueId weight, ValueId bias) {
  std::vector<ValueId> inputs{x, weight};
  if (bias >= 0) inputs.push_back(bias);
  return emit(Op::linear, std::move(inputs)).front();
}

ValueId Builder::rms_norm(ValueId x, ValueId weight, NormAttributes attributes) {
  return emit(Op::rms_norm, {x, weight}, attributes).front();
}

ValueId Builder::layer_norm(ValueId x, ValueId weight, ValueId bias, NormAttributes attributes) {
  std::vector<ValueId> inputs{x, weight};
  if (bias >= 0) inputs.push_back(bias);
  return emit(Op::layer_norm, std::move(inputs), attributes).front();
}

ValueId Builder::rope(ValueId x, ValueId positions, RopeAttributes attributes) {
  return emit(Op::rope, {x, positions}, std::move(attributes)).front();
}

ValueId Builder::state_update(ValueId state, ValueId x) {
  return emit(Op::state_update, {state, x}).front();
}

ValueId Builder::attention(ValueId q, ValueId keys, ValueId values, AttentionAttributes attributes, ValueId mask) {
  std::vector<ValueId> inputs = {q, keys, values};
  if (mask >= 0) inputs.push_back(mask);
  return emit(Op::attention, std::move(inputs), attributes).front();
}

ValueId Builder::activation(ValueId x, Activation kind) {
  return emit(Op::activation, {x}, ActivationAttributes{.kind = kind}).front();
}

ValueId Builder::softcap(ValueId x, float cap) {
  return emit(Op::softcap, {x}, SoftcapAttributes{.cap = cap}).front();
}

ValueId Builder::pick_rows(ValueId x) {
  return emit(Op::pick_rows, {x}).front();
}

ValueId Builder::add(ValueId a, ValueId b) {
  return emit(Op::add, {a, b}).front();
}

ValueId Builder::multiply(ValueId a, ValueId b) {
  return emit(Op::multiply, {a, b}).front();
}

ValueId Builder::scale(ValueId x, float factor) {
  return emit(Op::scale, {x}, ScaleAttributes{.factor = factor}).front();
}

std::vector<ValueId> Builder::split(ValueId x, std::vector<std::int64_t> sizes) {
  const int parts = static_cast<int>(sizes.size());
  return emit(Op::split, {x}, SplitAttributes{.sizes = std::move(sizes)}, parts);
}

ValueId Builder::reshape(ValueId x, Shape shape) {
  return emit(Op::reshape, {x}, ShapeAttributes{.shape = std::move(shape)}).front();
}

void Builder::set_island(ValueId value) {
  graph_.value(value).island = true;
}

void Builder::output(ValueId value, std::string name) {
  if (value < 0 || std::cmp_greater_equal(value, graph_.values.size())) throw std::logic_error("no such value");
  Value& renamed = graph_.value(value);
  if (renamed.name != name) {
    if (!ids_.emplace(name, value).second) throw std::logic_error(fmt::format("two values named {}", name));
    ids_.erase(renamed.name);
    renamed.name = std::move(name);
  }
  graph_.outputs.push_back(value);
}

Graph Builder::finish() {
  std::string all;
  for (const std::string& fault : faults(graph_)) all += (all.empty() ? "" : "\n") + fault;
  if (!all.empty()) throw std::logic_error(all);
  return std::move(graph_);
}

}  // namespace pastkv::graph
