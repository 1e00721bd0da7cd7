#include "graph/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <stdexcept>
#include <utility>

namespace pastkv::graph {
namespace {

// Walks a graph once, in the order in which it would run, and writes down what is wrong.
class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), maker_(graph.values.size(), kNobody) {}

  std::vector<std::string> run() {
    check_values();
    check_inputs();
    check_states();
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) check_node(i);
    check_all_made();
    check_outputs();
    return std::move(faults_);
  }

 private:
  static constexpr std::size_t kNobody = std::numeric_limits<std::size_t>::max();

  template <typename... Args>
  void fault(fmt::format_string<Args...> format, Args&&... args) {
    faults_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  bool exists(ValueId id) const { return id >= 0 && std::cmp_less(id, graph_.values.size()); }
  std::size_t maker(ValueId id) const { return maker_[static_cast<std::size_t>(id)]; }

  void check_values() {
    std::set<std::string_view> names;
    for (const Value& value : graph_.values) {
      if (value.name.empty()) fault("a value has no name");
      if (!value.name.empty() && !names.insert(value.name).second) fault("two values named {}", value.name);
      check_sizes(value);
      const bool must_be_float = value.kind == ValueKind::weight || value.kind == ValueKind::state;
      if (must_be_float && value.dtype != tensor::DType::f32) {
        fault("{} is {}, wants f32", value.name, tensor::name(value.dtype));
      }
      if (value.kind == ValueKind::constant) {
        check_constant(value);
      } else if (!value.data.empty()) {
        fault("{} holds data but is no constant", value.name);
      }
    }
  }

  void check_sizes(const Value& value) {
    for (const Dim& dim : value.shape) {
      if (dim.is_constant() && dim.constant() < 0) fault("{} has shape {}", value.name, text(value.shape));
      const bool fixed = value.kind == ValueKind::weight || value.kind == ValueKind::constant;
      if (fixed && !dim.is_constant()) fault("{} has shape {}, wants numbers", value.name, text(value.shape));
      if (value.kind == ValueKind::weight && dim == Dim(0)) fault("{} is empty: {}", value.name, text(value.shape));
    }
  }

  void check_constant(const Value& value) {
    const Shape held{static_cast<std::int64_t>(value.data.size())};
    if (!same_elements(value.shape, held)) {
      fault("{} {} holds {} numbers", value.name, text(value.shape), value.data.size());
    }
  }

  void check_inputs() {
    std::set<ValueId> seen;
    for (const ValueId id : graph_.inputs) {
      if (!exists(id)) {
        fault("input {} does not exist", id);
      } else if (!seen.insert(id).second) {
        fault("{} is listed twice as an input", graph_.value(id).name);
      } else if (graph_.value(id).kind != ValueKind::input) {
        fault("{} is listed as an input and is none", graph_.value(id).name);
      }
    }
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      const Value& value = graph_.values[i];
      if (value.kind == ValueKind::input && !seen.contains(static_cast<ValueId>(i))) {
        fault("{} is an input that is not listed", value.name);
      }
    }
  }

  void check_states() {
    std::set<ValueId> seen;
    std::set<std::pair<int, StateRole>> places;
    for (const State& state : graph_.states) {
      if (!exists(state.value) || graph_.value(state.value).kind != ValueKind::state) {
        fault("state {} is no value of that kind", state.value);
        continue;
      }
      const Value& value = graph_.value(state.value);
      if (!seen.insert(state.value).second) fault("{} is listed twice as a state", value.name);
      if (!places.emplace(state.layer, state.role).second) {
        fault("{} is the second {} state of layer {}", value.name, name(state.role), state.layer);
      }
      if (state.layer < 0 || state.window < 0)
        fault("{} has layer {}, window {}", value.name, state.layer, state.window);
      if (state.role == StateRole::buffer) {
        check_buffer_shape(value);
      } else {
        check_state_shape(value);
      }
    }
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      const Value& value = graph_.values[i];
      if (value.kind == ValueKind::state && !seen.contains(static_cast<ValueId>(i))) {
        fault("{} is a state that is not listed", value.name);
      }
    }
  }

  void check_state_shape(const Value& value) {
    const Shape& shape = value.shape;
    const auto size = [&](std::size_t axis) { return shape[axis].is_constant() && shape[axis].constant() > 0; };
    if (shape.size() != 4 || (shape[0] != Symbol::batch && shape[0] != Dim(1)) || !size(1) ||
        shape[2] != Symbol::context || !size(3)) {
      fault("{} has shape {}, wants [batch, heads, context, head_dim]", value.name, text(shape));
    }
  }

  void check_buffer_shape(const Value& value) {
    for (const Dim& dim : value.shape) {
      if (!dim.is_constant() || dim.constant() < 1)
        fault("{} has shape {}, wants numbers", value.name, text(value.shape));
    }
  }

  void check_node(std::size_t index) {
    const Node& node = graph_.nodes[index];
    const std::string where = described(index);
    const bool sound = check_uses(node, where) && check_results(node, where);
    if (sound) {
      check_inference(node, where);
      check_state_use(node, where);
      if (node.op == Op::attention) check_attention(node, where);
    }
    for (const ValueId id : node.outputs) {
      if (exists(id) && maker(id) == kNobody) maker_[static_cast<std::size_t>(id)] = index;
    }
  }

  std::string described(std::size_t index) const {
    const Node& node = graph_.nodes[index];
    const bool named = !node.outputs.empty() && exists(node.outputs.front());
    return named ? fmt::format("node {}, {}", index, graph_.value(node.outputs.front()).name)
                 : fmt::format("node {}", index);
  }

  bool check_uses(const Node& node, const std::string& where) {
    const std::size_t before = faults_.size();
    for (const ValueId id : node.inputs) {
      if (!exists(id)) {
        fault("{}: input {} does not exist", where, id);
      } else if (graph_.value(id).kind == ValueKind::result && maker(id) == kNobody) {
        fault("{}: {} is used before it is made", where, graph_.value(id).name);
      }
    }
    return faults_.size() == before;
  }

  bool check_results(const Node& node, const std::string& where) {
    const std::size_t before = faults_.size();
    std::set<ValueId> own;
    for (const ValueId id : node.outputs) {
      if (!exists(id)) {
        fault("{}: output {} does not exist", where, id);
      } else if (graph_.value(id).kind != ValueKind::result) {
        fault("{}: {} is no result and cannot be made", where, graph_.value(id).name);
      } else if (maker(id) != kNobody || !own.insert(id).second) {
        fault("{}: {} is made twice", where, graph_.value(id).name);
      }
    }
    return faults_.size() == before;
  }

  void check_inference(const Node& node, const std::string& where) try {
    const std::vector<Shape> shapes = infer_shapes(graph_, node);
    const tensor::DType dtype = infer_dtype(graph_, node);
    if (shapes.size() != node.outputs.size()) {
      fault("{}: {} outputs, wants {}", where, node.outputs.size(), shapes.size());
      return;
    }
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const Value& made = graph_.value(node.outputs[i]);
      if (made.shape != shapes[i]) {
        fault("{}: {} has shape {}, follows {}", where, made.name, text(made.shape), text(shapes[i]));
      }
      if (made.dtype != dtype) {
        fault("{}: {} is {}, follows {}", where, made.name, tensor::name(made.dtype), tensor::name(dtype));
      }
    }
  } catch (const std::exception& error) {  // a misfit, or a size that leaves 64 bits
    fault("{}: {}", where, error.what());
  }

  // A state is read before it is written, and written once; a buffer in any order. Nothing else may touch it.
  void check_state_use(const Node& node, const std::string& where) {
    const bool reads = node.op == Op::state_read;
    const bool writes = node.op == Op::state_update || node.op == Op::state_write;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Value& value = graph_.value(node.inputs[i]);
      if (value.kind != ValueKind::state) continue;
      if (i != 0 || !(reads || writes)) {
        fault("{}: {} uses the state {}", where, name(node.op), value.name);
      } else if (written_.contains(node.inputs[i]) && graph_.state_of(node.inputs[i])->role != StateRole::buffer) {
        fault("{}: state {} is {} after it was written", where, value.name, reads ? "read" : "written");
      } else if (writes) {
        written_.insert(node.inputs[i]);
      }
    }
  }

  // Keys come from a key state and values from a value state, and neither forgets what the window lets be seen.
  void check_attention(const Node& node, const std::string& where) {
    const auto* attributes = std::get_if<AttentionAttributes>(&node.attributes);
    if (attributes == nullptr || node.inputs.size() < 3) return;  // told by check_inference
    check_source(node.inputs[1], StateRole::key, attributes->window, where);
    check_source(node.inputs[2], StateRole::value, attributes->window, where);
  }

  void check_source(ValueId id, StateRole role, std::int64_t window, const std::string& where) {
    const State* state = source_of(id);
    if (state == nullptr) {
      fault("{}: {} does not come from a state_update", where, graph_.value(id).name);
      return;
    }
    const std::string& state_name = graph_.value(state->value).name;
    if (state->role != role) fault("{}: {} is no {} state", where, state_name, name(role));
    if (state->window != 0 && (window == 0 || window > state->window)) {
      fault("{}: window {} over state {} of window {}", where, window, state_name, state->window);
    }
  }

  // The state whose contents `id` is.
  const State* source_of(ValueId id) const {
    if (!exists(id) || maker(id) == kNobody) return nullptr;
    const Node& node = graph_.nodes[maker(id)];
    return node.op == Op::state_update && !node.inputs.empty() ? graph_.state_of(node.inputs[0]) : nullptr;
  }

  void check_all_made() {
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      const Value& value = graph_.values[i];
      if (value.kind == ValueKind::result && maker_[i] == kNobody) fault("{} is made by no node", value.name);
      if (value.kind == ValueKind::state && !written_.contains(static_cast<ValueId>(i))) {
        fault("state {} is never written", value.name);
      }
    }
  }

  void check_outputs() {
    if (graph_.outputs.empty()) fault("the graph has no output");
    std::set<ValueId> seen;
    for (const ValueId id : graph_.outputs) {
      if (!exists(id)) {
        fault("output {} does not exist", id);
      } else if (!seen.insert(id).second) {
        fault("{} is listed twice as an output", graph_.value(id).name);
      } else if (graph_.value(id).kind != ValueKind::result) {
        fault("output {} is made by no node", graph_.value(id).name);
      }
    }
  }

  const Graph& graph_;
  std::vector<std::size_t> maker_;  // by ValueId: index of the node that makes it
  std::set<ValueId> written_;       // states
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> faults(const Graph& graph) {
  return Verifier(graph).run();
}

}  // namespace pastkv::graph
