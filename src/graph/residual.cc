#include "graph/residual.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include "graph/builder.h"
#include "graph/verify.h"

namespace pastkv::graph {
namespace {

// The smallest epsilon whose root is still a number of f16.
constexpr float kLeastEpsilon = 2e-14F;

class Scaler {
 public:
  Scaler(const Graph& source, float factor)
      : source_(source),
        factor_(factor),
        b_(source.name),
        map_(source.values.size(), -1),
        maker_(source.values.size()) {
    for (const Node& node : source.nodes) {
      for (const ValueId id : node.outputs) maker_[index(id)] = &node;
      for (const ValueId id : node.inputs) ++uses_[id];
    }
    for (const ValueId id : source.outputs) ++uses_[id];
    find_stream();
  }

  Graph run() {
    copy_values();
    for (const Node& node : source_.nodes) {
      const std::vector<ValueId> made = rewritten(node);
      for (std::size_t i = 0; i < made.size(); ++i) map_[index(node.outputs[i])] = made[i];
    }
    for (const ValueId id : source_.outputs) b_.output(whole(id), source_.value(id).name);
    return b_.finish();
  }

 private:
  static std::size_t index(ValueId id) { return static_cast<std::size_t>(id); }
  const Node* maker(ValueId id) const { return maker_[index(id)]; }
  bool is_made_by(ValueId id, Op op) const { return maker(id) != nullptr && maker(id)->op == op; }
  bool is_used_once(ValueId id) const { return uses_.at(id) == 1; }

  // Sums of two results of one shape, and what is added. A matrix product that ends in a norm before it is added is
  // held down too, and so is the second factor of a product before such a matrix.
  void find_stream() {
    for (const Node& node : source_.nodes) {
      if (node.op != Op::add || !is_sum_of_results(node)) continue;
      scaled_.insert({node.inputs[0], node.inputs[1], node.outputs[0]});
    }
    for (const Node& node : source_.nodes) {
      if (node.op == Op::pick_rows && scaled_.contains(node.inputs[0])) scaled_.insert(node.outputs[0]);
      const bool is_norm = node.op == Op::rms_norm || node.op == Op::layer_norm;
      if (!is_norm || !scaled_.contains(node.outputs[0])) continue;
      const ValueId x = node.inputs[0];
      if (is_made_by(x, Op::linear) && is_used_once(x)) scaled_.insert(x);
    }
    for (const ValueId id : std::set<ValueId>(scaled_)) {
      if (!is_made_by(id, Op::linear)) continue;
      const ValueId x = maker(id)->inputs[0];
      if (is_made_by(x, Op::multiply) && is_used_once(x)) scaled_.insert(x);
    }
  }

  bool is_sum_of_results(const Node& node) const {
    const Value& a = source_.value(node.inputs[0]);
    const Value& b = source_.value(node.inputs[1]);
    return a.kind == ValueKind::result && b.kind == ValueKind::result && a.shape == b.shape;
  }

  void copy_values() {
    for (const ValueId id : source_.inputs) {
      const Value& value = source_.value(id);
      map_[index(id)] = b_.input(value.name, value.dtype, value.shape);
    }
    for (std::size_t i = 0; i < source_.values.size(); ++i) {
      const Value& value = source_.values[i];
      if (value.kind == ValueKind::weight) map_[i] = b_.weight(value.name, value.shape);
      if (value.kind == ValueKind::constant) map_[i] = b_.constant(value.name, value.shape, value.data, value.dtype);
    }
    for (const State& state : source_.states) {
      const Value& value = source_.value(state.value);
      map_[index(state.value)] = b_.state(value.name, state.role, state.layer, value.shape[1].constant(),
                                          value.shape[3].constant(), state.window);
    }
  }

  ValueId held(ValueId id) const { return map_[index(id)]; }
  ValueId whole(ValueId id) { return scaled_.contains(id) ? b_.scale(held(id), factor_) : held(id); }
  ValueId smaller(ValueId made) { return b_.scale(made, 1.0F / factor_); }

  std::vector<ValueId> rewritten(const Node& node) {
    const bool is_scaled = scaled_.contains(node.outputs[0]);
    switch (node.op) {
      case Op::add:
        if (is_scaled && scaled_.contains(node.inputs[0]) && scaled_.contains(node.inputs[1])) return copied(node);
        break;
      case Op::pick_rows:
        if (is_scaled && scaled_.contains(node.inputs[0])) return copied(node);
        break;
      case Op::linear:
        if (is_scaled) return {linear(node)};
        break;
      case Op::multiply:
        if (is_scaled) return {b_.multiply(whole(node.inputs[0]), smaller(whole(node.inputs[1])))};
        break;
      case Op::scale:
        if (is_scaled) {
          return {b_.scale(whole(node.inputs[0]), std::get<ScaleAttributes>(node.attributes).factor / factor_)};
        }
        break;
      case Op::rms_norm:
      case Op::layer_norm:
        return {norm(node, is_scaled)};
      default:
        break;
    }
    std::vector<ValueId> made = copied_whole(node);
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (scaled_.contains(node.outputs[i])) made[i] = smaller(made[i]);
    }
    return made;
  }

  std::vector<ValueId> copied(const Node& node) {
    std::vector<ValueId> in;
    for (const ValueId id : node.inputs) in.push_back(held(id));
    return b_.emit(node.op, std::move(in), node.attributes, static_cast<int>(node.outputs.size()));
  }
  std::vector<ValueId> copied_whole(const Node& node) {
    std::vector<ValueId> in;
    for (const ValueId id : node.inputs) in.push_back(whole(id));
    return b_.emit(node.op, std::move(in), node.attributes, static_cast<int>(node.outputs.size()));
  }

  ValueId linear(const Node& node) {
    const ValueId x = node.inputs[0];
    const ValueId product = b_.linear(scaled_.contains(x) ? held(x) : smaller(held(x)), held(node.inputs[1]));
    return node.inputs.size() < 3 ? product : b_.add(product, smaller(held(node.inputs[2])));
  }

  // A norm of x / f is the norm of x when epsilon is divided by f^2. Its result becomes smaller by its gain.
  ValueId norm(const Node& node, bool is_scaled) {
    NormAttributes attributes = std::get<NormAttributes>(node.attributes);
    if (scaled_.contains(node.inputs[0]) && attributes.epsilon > 0.0F) {
      attributes.epsilon = std::max(attributes.epsilon / (factor_ * factor_), kLeastEpsilon);
    }
    std::vector<ValueId> in{held(node.inputs[0])};
    if (is_scaled) attributes.weight_offset /= factor_;
    for (std::size_t i = 1; i < node.inputs.size(); ++i) {
      in.push_back(is_scaled ? smaller(held(node.inputs[i])) : held(node.inputs[i]));
    }
    return b_.emit(node.op, std::move(in), attributes).front();
  }

  const Graph& source_;
  float factor_;
  Builder b_;
  std::vector<ValueId> map_;        // from a value of the source to its value in the new graph
  std::vector<const Node*> maker_;  // by ValueId of the source
  std::map<ValueId, int> uses_;     // of the source
  std::set<ValueId> scaled_;        // values of the source that the new graph holds divided by the factor
};

}  // namespace

Graph scale_residual(const Graph& graph, float factor) {
  const std::vector<std::string> found = faults(graph);
  if (!found.empty()) throw std::logic_error(fmt::format("{}", fmt::join(found, "\n")));
  return Scaler(graph, factor).run();
}

}  // namespace pastkv::graph
