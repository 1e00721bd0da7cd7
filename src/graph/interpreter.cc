#include "graph/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "graph/reference.h"
#include "graph/verify.h"

namespace pastkv::graph {
namespace {

using reference::Extents;
using tensor::DType;

Extents bound(const Shape& shape, const Sizes& sizes) {
  Extents out;
  for (const Dim& dim : shape) out.push_back(dim.at(sizes));
  return out;
}

[[noreturn]] void refuse_input(const std::string& name, std::string reason, std::string remedy = "") {
  throw Error({.place = "input " + name, .reason = std::move(reason), .remedy = std::move(remedy)});
}

bool is_buffer(const Graph& graph, ValueId state) {
  return graph.state_of(state)->role == StateRole::buffer;
}

// Where the states are buffers, a graph knows of past tokens only by the size of an input that covers them too.
void bind_past(const Graph& graph, const std::map<std::string, Tensor>& inputs, Sizes& sizes) {
  if (graph.states.empty()) return;
  for (const State& state : graph.states) {
    if (state.role != StateRole::buffer) return;
  }
  for (const ValueId id : graph.inputs) {
    const Value& input = graph.value(id);
    const Extents& shape = inputs.at(input.name).shape;
    for (std::size_t axis = 0; axis < std::min(shape.size(), input.shape.size()); ++axis) {
      if (input.shape[axis] != Dim(Symbol::past) + Symbol::query) continue;
      sizes.past = shape[axis] - sizes.query;
      if (sizes.past < 0) refuse_input(input.name, fmt::format("covers {} of {} tokens", shape[axis], sizes.query));
    }
  }
}

// Batch and query length are what the inputs say; every input must then have the shape that follows.
Sizes bind_sizes(const Graph& graph, const std::map<std::string, Tensor>& inputs, std::int64_t past,
                 std::int64_t rows) {
  Sizes sizes{.batch = 1, .query = 1, .past = past, .rows = rows};
  std::set<std::string> known;
  for (const ValueId id : graph.inputs) {
    const Value& input = graph.value(id);
    known.insert(input.name);
    const auto given = inputs.find(input.name);
    if (given == inputs.end()) refuse_input(input.name, "is missing");
    const Extents& shape = given->second.shape;
    for (std::size_t axis = 0; axis < std::min(shape.size(), input.shape.size()); ++axis) {
      if (input.shape[axis] == Dim(Symbol::batch)) sizes.batch = shape[axis];
      if (input.shape[axis] == Dim(Symbol::query)) sizes.query = shape[axis];
    }
  }
  bind_past(graph, inputs, sizes);
  sizes.context = sizes.past + sizes.query;
  for (const auto& [name, given] : inputs) {
    if (!known.contains(name)) refuse_input(name, "is no input of the graph");
    const Extents wanted = bound(graph.value(graph.find(name)).shape, sizes);
    if (given.shape != wanted || given.data.size() != reference::elements(wanted)) {
      refuse_input(name, fmt::format("[{}] with {} numbers, wants [{}]", fmt::join(given.shape, ", "),
                                     given.data.size(), fmt::join(wanted, ", ")));
    }
  }
  if (sizes.query < 1 || sizes.batch < 1) {
    throw Error(
        {.reason = fmt::format("batch {} and query length {}; both must be at least 1", sizes.batch, sizes.query)});
  }
  if (rows < 0 || rows > sizes.query) {
    throw Error({.reason = fmt::format("{} rows of logits asked of {} tokens", rows, sizes.query)});
  }
  return sizes;
}

// For each value, the index of the last node that reads it: its numbers can go after that.
std::vector<std::size_t> last_uses(const Graph& graph) {
  std::vector<std::size_t> last(graph.values.size(), 0);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ValueId id : graph.nodes[i].inputs) last[static_cast<std::size_t>(id)] = i;
  }
  for (const ValueId id : graph.outputs) last[static_cast<std::size_t>(id)] = graph.nodes.size();
  return last;
}

using Operands = std::vector<const Tensor*>;
using Shared = std::shared_ptr<const Tensor>;

std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes) {
  std::vector<Tensor> parts;
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    parts.push_back(reference::slice(x, -1, begin, begin + size));
    begin += size;
  }
  return parts;
}

// One node with one result. Among the operands a state stands with its contents, [batch, heads, past, head_dim].
Tensor evaluate(const Graph& graph, const Node& node, const Operands& in, const Sizes& sizes) {
  const Attributes& with = node.attributes;
  const auto optional = [&](std::size_t i) { return i < in.size() ? in[i] : nullptr; };
  const auto is_boolean = [&](std::size_t i) {
    return i < in.size() && graph.value(node.inputs[i]).dtype == DType::boolean;
  };
  switch (node.op) {
    case Op::embedding:
      return reference::gather(*in[1], *in[0]);
    case Op::linear:
      return reference::linear(*in[0], *in[1], optional(2));
    case Op::rms_norm:
      return reference::rms_norm(*in[0], *in[1], std::get<NormAttributes>(with));
    case Op::layer_norm:
      return reference::layer_norm(*in[0], *in[1], optional(2), std::get<NormAttributes>(with));
    case Op::rope:
      return reference::rope(*in[0], *in[1], std::get<RopeAttributes>(with), sizes.past + sizes.query);
    case Op::state_update:
      return reference::state_update(*in[0], *in[1]);
    case Op::attention:
      return reference::attention(*in[0], *in[1], *in[2], std::get<AttentionAttributes>(with),
                                  {.numbers = optional(3), .boolean = is_boolean(3)});
    case Op::activation:
      return reference::activation(*in[0], std::get<ActivationAttributes>(with).kind);
    case Op::softcap:
      return reference::softcap(*in[0], std::get<SoftcapAttributes>(with).cap);
    case Op::pick_rows:
      return reference::slice(*in[0], 1, sizes.query - sizes.rows, sizes.query);
    case Op::scale:
      return reference::scale(*in[0], std::get<ScaleAttributes>(with).factor);
    case Op::reshape:
      return {.shape = bound(std::get<ShapeAttributes>(with).shape, sizes), .data = in[0]->data};
    case Op::gather:
      return reference::gather(*in[0], *in[1]);
    case Op::matmul:
      return reference::matmul(*in[0], *in[1]);
    case Op::transpose:
      return reference::transpose(*in[0], std::get<PermutationAttributes>(with).axes);
    case Op::slice: {
      const auto& [axis, begin, end] = std::get<SliceAttributes>(with);
      return reference::slice(*in[0], axis, begin.at(sizes), end.at(sizes));
    }
    case Op::concat:
      return reference::concat(in, std::get<AxisAttributes>(with).axis);
    case Op::expand:
      return reference::expand(*in[0], bound(std::get<ShapeAttributes>(with).shape, sizes));
    case Op::range:
      return reference::range(std::get<ShapeAttributes>(with).shape[0].at(sizes));
    case Op::select:
      return reference::select(*in[0], *in[1], *in[2]);
    case Op::cumulative_sum:
      return reference::cumulative_sum(*in[0], std::get<AxisAttributes>(with).axis);
    case Op::softmax:
      return reference::softmax(*in[0]);
    case Op::cast:
      return reference::cast(*in[0], std::get<CastAttributes>(with).dtype);
    case Op::update_slice:
      return reference::update_slice(*in[0], *in[1], *in[2]);
    case Op::reduce_sum:
    case Op::reduce_mean:
    case Op::reduce_max:
      return reference::reduce(node.op, *in[0], std::get<AxisAttributes>(with).axis);
    case Op::add:
    case Op::subtract:
    case Op::multiply:
    case Op::divide:
    case Op::power:
    case Op::less:
    case Op::less_equal:
    case Op::logical_and:
      return reference::binary(node.op, *in[0], *in[1]);
    case Op::negate:
    case Op::absolute:
    case Op::exponential:
    case Op::square_root:
    case Op::tanh:
    case Op::erf:
    case Op::sine:
    case Op::cosine:
      return reference::unary(node.op, *in[0]);
    case Op::split:  // several results: by its own function
    case Op::state_read:
    case Op::state_write:
      break;  // nothing is computed
  }
  throw std::logic_error(fmt::format("{} has no single result", name(node.op)));
}

// The states as a run finds them: what earlier runs left, or no positions at all.
std::map<ValueId, Shared> states_before(const Graph& graph, const std::map<ValueId, Shared>& kept, const Sizes& sizes) {
  std::map<ValueId, Shared> states;
  for (const State& state : graph.states) {
    Sizes held = sizes;
    held.context = sizes.past;
    const Extents shape = bound(graph.value(state.value).shape, held);
    const auto known = kept.find(state.value);
    Shared contents = known == kept.end() ? std::make_shared<const Tensor>(reference::zeros(shape)) : known->second;
    if (contents->shape != shape) {
      throw Error(
          {.reason = fmt::format("batch {}, and the states were filled with batch {}", shape[0], contents->shape[0]),
           .remedy = "reset the states first"});
    }
    states.emplace(state.value, std::move(contents));
  }
  return states;
}

}  // namespace

Interpreter::Interpreter(Graph graph, WeightReader weights, Options options)
    : graph_(std::move(graph)), weights_(std::move(weights)), options_(options) {
  const std::vector<std::string> found = faults(graph_);
  if (!found.empty()) throw std::logic_error(fmt::format("{}", fmt::join(found, "\n")));
  for (std::size_t i = 0; i < graph_.values.size(); ++i) {
    const Value& value = graph_.values[i];
    if (value.kind != ValueKind::constant) continue;
    fixed_.emplace(static_cast<ValueId>(i),
                   Tensor{.shape = bound(value.shape, {}), .data = {value.data.begin(), value.data.end()}});
  }
}

const Tensor& Interpreter::fixed(ValueId id) {
  if (const auto known = fixed_.find(id); known != fixed_.end()) return known->second;
  const Value& value = graph_.value(id);
  Tensor read{.shape = bound(value.shape, {}), .data = weights_(value)};
  if (read.data.size() != reference::elements(read.shape)) {
    throw Error({.place = value.name,
                 .reason = fmt::format("{} numbers were read for {}", read.data.size(), text(value.shape))});
  }
  return fixed_.emplace(id, std::move(read)).first->second;
}

std::map<std::string, Tensor> Interpreter::run(const std::map<std::string, Tensor>& inputs, std::int64_t rows) {
  const Sizes sizes = bind_sizes(graph_, inputs, past_, rows);
  if (past_ > 0 && rope_changes(graph_, rope_length_, past_ + sizes.query)) {
    throw Error({.reason = fmt::format("the states were made by the rope table of {} tokens, not that of {}",
                                       rope_length_, past_ + sizes.query),
                 .remedy = "reset the states and run every token again"});
  }
  const std::vector<std::size_t> last_use = last_uses(graph_);
  std::map<ValueId, Shared> states = states_before(graph_, states_, sizes);
  std::map<ValueId, Shared> results;

  const auto operand = [&](ValueId id) -> const Tensor* {
    switch (graph_.value(id).kind) {
      case ValueKind::input:
        return &inputs.at(graph_.value(id).name);
      case ValueKind::weight:
      case ValueKind::constant:
        return &fixed(id);
      case ValueKind::state:
        return states.at(id).get();
      case ValueKind::result:
        return results.at(id).get();
    }
    __builtin_unreachable();
  };

  // Not copied where it is a result.
  const auto contents_of = [&](ValueId id) {
    return graph_.value(id).kind == ValueKind::result ? results.at(id) : std::make_shared<const Tensor>(*operand(id));
  };

  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    Operands in;
    for (const ValueId id : node.inputs) in.push_back(operand(id));

    std::vector<Tensor> made;
    if (node.op == Op::state_read) {
      results[node.outputs[0]] = states.at(node.inputs[0]);
    } else if (node.op == Op::state_write) {
      states[node.inputs[0]] = results[node.outputs[0]] = contents_of(node.inputs[1]);
    } else if (node.op == Op::split) {
      made = split(*in[0], std::get<SplitAttributes>(node.attributes).sizes);
    } else {
      made.push_back(evaluate(graph_, node, in, sizes));
    }

    for (std::size_t k = 0; k < made.size(); ++k) {
      const Value& value = graph_.value(node.outputs[k]);
      if (options_.round_to_f16 && value.dtype == DType::f32 && !value.island) {
        made[k] = reference::cast(made[k], DType::f16);
      }
      const auto& result = results[node.outputs[k]] = std::make_shared<const Tensor>(std::move(made[k]));
      if (node.op == Op::state_update) states[node.inputs[0]] = result;
    }

    for (const ValueId id : node.inputs) {
      if (last_use[static_cast<std::size_t>(id)] == i) results.erase(id);
      if (!options_.hold_weights && graph_.value(id).kind == ValueKind::weight) fixed_.erase(id);
    }
  }

  std::map<std::string, Tensor> outputs;
  for (const ValueId id : graph_.outputs) outputs.emplace(graph_.value(id).name, *results.at(id));
  states_ = std::move(states);
  past_ = sizes.past + sizes.query;
  rope_length_ = past_;
  return outputs;
}

void Interpreter::reset() {
  states_.clear();
  past_ = 0;
}

void Interpreter::truncate(std::int64_t length) {
  if (length < 0 || length > past_) {
    throw Error({.reason = fmt::format("cannot keep {} of {} positions", length, past_)});
  }
  if (length == 0) return reset();
  for (auto& [id, contents] : states_) {
    if (!is_buffer(graph_, id)) contents = std::make_shared<const Tensor>(reference::slice(*contents, 2, 0, length));
  }
  past_ = length;
}

}  // namespace pastkv::graph
