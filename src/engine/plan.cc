#include "engine/plan.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "tensor/codec.h"

namespace pastkv::engine {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::Value;
using graph::ValueId;
using graph::ValueKind;

bool is_view(Op op) {
  return op == Op::reshape || op == Op::split || op == Op::pick_rows;
}

// Floats of one token: the product of all axes after [batch, query].
std::int64_t row_width(const Value& value) {
  std::int64_t width = 1;
  for (std::size_t axis = 2; axis < value.shape.size(); ++axis) width *= value.shape[axis].constant();
  return width;
}

std::int64_t last_axis(const Value& value) {
  return value.shape.back().constant();
}

class Compiler {
 public:
  explicit Compiler(Engine::Plan& plan) : plan_(plan), graph_(plan.model.graph) {}

  void compile() {
    analyse();
    for (std::size_t index = 0; index < graph_.nodes.size(); ++index) {
      if (!done_[index]) emit(index);
    }
    flush();
    const Operand logits = operand(graph_.outputs.at(0));
    if (!plan_.slots[static_cast<std::size_t>(logits.slot)].logits_rows) unsupported("logits without pick_rows");
    plan_.logits_slot = logits.slot;
    plan_.vocab = logits.width;
  }

 private:
  // --- analysis ---

  void analyse() {
    const std::size_t count = graph_.values.size();
    done_.assign(graph_.nodes.size(), false);
    root_.resize(count);
    for (std::size_t id = 0; id < count; ++id) root_[id] = static_cast<ValueId>(id);
    uses_.assign(count, 0);
    users_.assign(count, {});
    rows_.assign(count, Rows::logits);
    after_pick_.assign(count, false);
    operands_.assign(count, {});
    keys_of_.assign(count, -1);
    for (const graph::State& state : graph_.states) {
      const Value& value = graph_.value(state.value);
      state_index_[state.value] = static_cast<int>(plan_.states.size());
      plan_.states.push_back({value.shape[1].constant(), value.shape[3].constant(), state.window});
    }
    for (std::size_t index = 0; index < graph_.nodes.size(); ++index) {
      const Node& node = graph_.nodes[index];
      for (const ValueId input : node.inputs) {
        if (!is_view(node.op)) {
          ++uses_[slot_of(input)];
          users_[slot_of(input)].push_back(index);
        }
        if (after_pick_[at(input)] || node.op == Op::pick_rows) {
          for (const ValueId output : node.outputs) after_pick_[at(output)] = true;
        }
      }
      if (is_view(node.op)) {
        for (const ValueId output : node.outputs) root_[at(output)] = root_[at(node.inputs[0])];
      }
    }
    for (const ValueId output : graph_.outputs) ++uses_[slot_of(output)];
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) find_rows(*node);
  }

  // A value is needed for every token as soon as one of its readers is: only states look at other tokens.
  void find_rows(const Node& node) {
    Rows needed = Rows::logits;
    for (const ValueId output : node.outputs) {
      if (rows_[at(output)] == Rows::all) needed = Rows::all;
    }
    if (node.op == Op::state_update) needed = Rows::all;
    if (node.op == Op::pick_rows || needed == Rows::logits) return;
    for (const ValueId input : node.inputs) rows_[at(input)] = Rows::all;
  }

  static std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }
  std::size_t slot_of(ValueId id) const { return at(root_[at(id)]); }

  [[noreturn]] static void unsupported(const std::string& what) {
    throw Error({.file = {}, .place = {}, .reason = "the engine has no step for " + what, .remedy = {}});
  }

  // --- operands ---

  Operand operand(ValueId id) const {
    const Operand& found = operands_[at(id)];
    if (found.slot < 0) throw std::logic_error("operand used before it is made: " + graph_.value(id).name);
    return found;
  }

  Operand make(ValueId id) {
    const bool logits_rows = after_pick_[at(id)];
    const std::int64_t width = row_width(graph_.value(id));
    auto& free = free_slots_[{width, logits_rows}];
    int slot = -1;
    if (!free.empty()) {
      slot = free.back();
      free.pop_back();
    } else {
      slot = static_cast<int>(plan_.slots.size());
      plan_.slots.push_back({width, logits_rows});
    }
    return operands_[at(id)] = {slot, 0, width};
  }

  // The result takes the place of `input` when this was its last use and it fills its slot, else a place of its own.
  // Call before release().
  Operand make_in_place(ValueId id, ValueId input) {
    const Operand x = operand(input);
    const Slot& slot = plan_.slots[static_cast<std::size_t>(x.slot)];
    const bool whole = x.offset == 0 && x.width == slot.stride && x.width == row_width(graph_.value(id));
    if (!whole || uses_[slot_of(input)] != 1 || slot.logits_rows != after_pick_[at(id)]) return make(id);
    kept_ = x.slot;
    return operands_[at(id)] = x;
  }

  void release(const Node& node) {
    for (const ValueId input : node.inputs) {
      if (operands_[at(input)].slot < 0 || --uses_[slot_of(input)] > 0) continue;
      const int slot = operands_[at(input)].slot;
      if (slot == kept_) continue;
      const Slot& shape = plan_.slots[static_cast<std::size_t>(slot)];
      free_slots_[{shape.stride, shape.logits_rows}].push_back(slot);
    }
    kept_ = -1;
  }

  const formats::TensorEntry& entry(ValueId id) const {
    if (graph_.value(id).kind != ValueKind::weight) unsupported("a computed value where a weight is expected");
    return plan_.model.weight(id);
  }

  const float* vector(ValueId id) {
    const auto known = vectors_.find(id);
    if (known != vectors_.end()) return known->second;
    const formats::TensorEntry& tensor = entry(id);
    std::vector<float> numbers(static_cast<std::size_t>(tensor.elements()));
    tensor::decode_row(tensor.dtype, tensor.bytes, numbers);
    plan_.vectors.push_back(std::move(numbers));
    return vectors_[id] = plan_.vectors.back().data();
  }

  // --- steps ---

  void row_op(Rows rows, RowOp op) {
    if (!block_.ops.empty() && block_.rows != rows) flush();
    block_.rows = rows;
    block_.ops.push_back(std::move(op));
  }

  void flush() {
    if (!block_.ops.empty()) plan_.steps.emplace_back(std::move(block_));
    block_ = {};
  }

  void emit(std::size_t index) {
    const Node& node = graph_.nodes[index];
    const ValueId out = node.outputs.empty() ? -1 : node.outputs[0];
    const Rows rows = out < 0 ? Rows::all : rows_[at(out)];
    switch (node.op) {
      case Op::reshape:
      case Op::pick_rows:
      case Op::split:
        view(node);
        return;
      case Op::embedding:
        embedding(node, rows);
        break;
      case Op::linear:
        linear_group(index);
        return;
      case Op::rms_norm:
      case Op::layer_norm:
        norm(node, rows);
        break;
      case Op::rope:
        rope(node, rows);
        break;
      case Op::state_update:
        state_update(node);
        break;
      case Op::attention:
        attention(node, rows);
        break;
      case Op::activation:
        if (gated(index)) return;
        row_op(rows, activation(node));
        break;
      case Op::softcap: {
        const Operand x = operand(node.inputs[0]);
        row_op(rows, SoftcapOp{std::get<graph::SoftcapAttributes>(node.attributes).cap, x,
                               make_in_place(out, node.inputs[0])});
        break;
      }
      case Op::scale: {
        const Operand x = operand(node.inputs[0]);
        row_op(rows, ScaleOp{std::get<graph::ScaleAttributes>(node.attributes).factor, x,
                             make_in_place(out, node.inputs[0])});
        break;
      }
      case Op::add:
      case Op::multiply:
        pairwise(node, rows);
        break;
      default:
        unsupported("the operation " + std::string(graph::name(node.op)));
    }
    release(node);
    done_[index] = true;
  }

  void view(const Node& node) {
    const Operand x = operand(node.inputs[0]);
    if (node.op == Op::split && graph_.value(node.inputs[0]).shape.size() != 3) unsupported("a split of heads");
    if (node.op == Op::reshape && graph_.value(node.outputs[0]).shape.size() < 3) unsupported("a reshape of tokens");
    std::int64_t offset = x.offset;
    for (const ValueId output : node.outputs) {
      const std::int64_t width = row_width(graph_.value(output));
      operands_[at(output)] = {x.slot, offset, width};
      offset += width;
    }
  }

  void embedding(const Node& node, Rows rows) {
    const formats::TensorEntry& table = entry(node.inputs[1]);
    row_op(rows, EmbeddingOp{table.dtype, table.bytes.data(), row_bytes(table), make(node.outputs[0])});
  }

  static std::int64_t row_bytes(const formats::TensorEntry& tensor) {
    const auto bytes = tensor::byte_size(tensor.dtype, static_cast<std::uint64_t>(tensor.shape.back()));
    if (!bytes) {
      throw Error({.file = tensor.file->path().string(),
                   .place = tensor.name,
                   .reason = "rows of " + std::to_string(tensor.shape.back()) + " elements are no whole blocks of " +
                             std::string(tensor::name(tensor.dtype)),
                   .remedy = "quantize this tensor to another type"});
    }
    return static_cast<std::int64_t>(*bytes);
  }

  void norm(const Node& node, Rows rows) {
    const auto& attributes = std::get<graph::NormAttributes>(node.attributes);
    const ValueId x = node.inputs[0];
    NormOp op{.centred = node.op == Op::layer_norm,
              .x = operand(x),
              .weight = vector(node.inputs[1]),
              .bias = node.inputs.size() > 2 ? vector(node.inputs[2]) : nullptr,
              .group = last_axis(graph_.value(x)),
              .epsilon = attributes.epsilon,
              .weight_offset = attributes.weight_offset,
              .y = {}};
    op.y = make_in_place(node.outputs[0], x);
    row_op(rows, op);
  }

  int rope_index(const graph::RopeAttributes& attributes) {
    const auto same = [&](const graph::RopeAttributes& other) {
      const auto& a = other.frequencies;
      const auto& b = attributes.frequencies;
      return other.rotary_dim == attributes.rotary_dim && other.interleaved == attributes.interleaved &&
             a.rule == b.rule && a.table.inverse_frequencies == b.table.inverse_frequencies &&
             a.table.scale == b.table.scale && a.long_table.inverse_frequencies == b.long_table.inverse_frequencies &&
             a.long_table.scale == b.long_table.scale && a.switch_length == b.switch_length && a.base == b.base &&
             a.factor == b.factor;
    };
    const auto found = std::find_if(plan_.ropes.begin(), plan_.ropes.end(), same);
    if (found != plan_.ropes.end()) return static_cast<int>(found - plan_.ropes.begin());
    plan_.ropes.push_back(attributes);
    return static_cast<int>(plan_.ropes.size()) - 1;
  }

  void rope(const Node& node, Rows rows) {
    const int index = rope_index(std::get<graph::RopeAttributes>(node.attributes));
    const Operand x = operand(node.inputs[0]);
    const std::int64_t head_dim = last_axis(graph_.value(node.inputs[0]));
    row_op(rows, RopeOp{index, head_dim, x, make_in_place(node.outputs[0], node.inputs[0])});
  }

  void state_update(const Node& node) {
    const int state = state_index_.at(node.inputs[0]);
    keys_of_[at(node.outputs[0])] = state;
    row_op(Rows::all, StoreOp{state, operand(node.inputs[1])});
  }

  void attention(const Node& node, Rows rows) {
    if (node.inputs.size() > 3) throw std::logic_error("the engine has no step for attention under a caller's mask");
    const ValueId q = node.inputs[0];
    const int keys = keys_of_[at(node.inputs[1])];
    const int values = keys_of_[at(node.inputs[2])];
    if (keys < 0 || values < 0) unsupported("attention over something that is no state");
    flush();
    const graph::Shape& shape = graph_.value(q).shape;
    Attend step{.rows = rows,
                .q = operand(q),
                .y = {},
                .keys = keys,
                .values = values,
                .heads = shape[2].constant(),
                .kv_heads = plan_.states[static_cast<std::size_t>(keys)].heads,
                .head_dim = shape[3].constant(),
                .attributes = std::get<graph::AttentionAttributes>(node.attributes)};
    step.y = make(node.outputs[0]);
    plan_.steps.emplace_back(step);
  }

  ActivationOp activation(const Node& node) {
    const Operand x = operand(node.inputs[0]);
    return {std::get<graph::ActivationAttributes>(node.attributes).kind, x,
            make_in_place(node.outputs[0], node.inputs[0])};
  }

  // activation(gate) * up in one pass, when nothing else reads the activation. The work is left to the multiply's
  // place, where `up` is sure to be made.
  bool gated(std::size_t index) {
    const ValueId out = graph_.nodes[index].outputs[0];
    const auto& users = users_[at(out)];
    if (uses_[at(out)] != 1 || users.size() != 1) return false;
    const Node& user = graph_.nodes[users[0]];
    if (user.op != Op::multiply || user.inputs[0] == user.inputs[1]) return false;
    postponed_[out] = index;
    return true;
  }

  void pairwise(const Node& node, Rows rows) {
    const ValueId out = node.outputs[0];
    if (node.op == Op::multiply) {
      for (const int side : {0, 1}) {
        const auto found = postponed_.find(node.inputs[static_cast<std::size_t>(side)]);
        if (found == postponed_.end()) continue;
        const Node& act = graph_.nodes[found->second];
        const ValueId gate = act.inputs[0];
        const Operand up = operand(node.inputs[static_cast<std::size_t>(1 - side)]);
        GatedOp op{std::get<graph::ActivationAttributes>(act.attributes).kind, operand(gate), up, {}};
        op.y = make_in_place(out, gate);
        row_op(rows, op);
        release(act);
        done_[found->second] = true;
        return;
      }
    }
    const Operand a = operand(node.inputs[0]);
    const Operand b = operand(node.inputs[1]);
    if (a.width != b.width) unsupported("a broadcast");
    const Operand y = make_in_place(out, node.inputs[0]);
    if (node.op == Op::add) {
      row_op(rows, AddOp{a, b, y});
    } else {
      row_op(rows, MultiplyOp{a, b, y});
    }
  }

  // The add that takes this linear's result as its only reader and whose other side can be overwritten by the sum.
  std::optional<std::size_t> residual_add(std::size_t index) const {
    const ValueId out = graph_.nodes[index].outputs[0];
    if (uses_[at(out)] != 1 || users_[at(out)].size() != 1) return std::nullopt;
    const std::size_t user = users_[at(out)][0];
    const Node& add = graph_.nodes[user];
    if (add.op != Op::add || add.inputs[0] == add.inputs[1]) return std::nullopt;
    const ValueId other = add.inputs[0] == out ? add.inputs[1] : add.inputs[0];
    const Operand place = operands_[at(other)];
    if (place.slot < 0 || uses_[slot_of(other)] != 1) return std::nullopt;  // not made yet, or read again later
    const Slot& slot = plan_.slots[static_cast<std::size_t>(place.slot)];
    if (place.offset != 0 || place.width != slot.stride || place.width != row_width(graph_.value(out))) {
      return std::nullopt;
    }
    if (slot.logits_rows != after_pick_[at(add.outputs[0])] || rows_[at(out)] != rows_[at(add.outputs[0])]) {
      return std::nullopt;
    }
    return user;
  }

  Linear linear(const Node& node) {
    const formats::TensorEntry& weight = entry(node.inputs[1]);
    if (!plan_.kernels.linear_supported(weight.dtype)) {
      throw Error(
          {.file = weight.file->path().string(),
           .place = weight.name,
           .reason = "the engine does not compute on weights of type " + std::string(tensor::name(weight.dtype)),
           .remedy = "convert the model to f16, bf16 or a quantized type"});
    }
    return {.type = weight.dtype,
            .weights = weight.bytes.data(),
            .row_bytes = row_bytes(weight),
            .depth = weight.shape.back(),
            .out_rows = weight.shape.front(),
            .bias = node.inputs.size() > 2 ? vector(node.inputs[2]) : nullptr,
            .y = {},
            .accumulate = false};
  }

  void linear_group(std::size_t first) {
    const ValueId x = graph_.nodes[first].inputs[0];
    const Rows rows = rows_[at(graph_.nodes[first].outputs[0])];
    LinearGroup group{rows, {}};
    std::vector<std::size_t> members;
    if (const auto add = residual_add(first)) {
      const Node& node = graph_.nodes[first];
      const Node& sum = graph_.nodes[*add];
      const ValueId other = sum.inputs[0] == node.outputs[0] ? sum.inputs[1] : sum.inputs[0];
      Linear member = linear(node);
      member.accumulate = true;
      member.y = operands_[at(sum.outputs[0])] = operands_[at(node.outputs[0])] = operand(other);
      group.members.push_back(member);
      members.push_back(first);
      done_[*add] = true;
    } else {
      for (std::size_t index = first; index < graph_.nodes.size(); ++index) {
        const Node& node = graph_.nodes[index];
        const bool joins = index == first || (node.op == Op::linear && !done_[index] && node.inputs[0] == x &&
                                              rows_[at(node.outputs[0])] == rows && !residual_add(index));
        if (!joins) continue;
        Linear member = linear(node);
        member.y = make(node.outputs[0]);
        group.members.push_back(member);
        members.push_back(index);
      }
    }
    prepare(group, operand(x));
    flush();
    plan_.steps.emplace_back(std::move(group));
    for (const std::size_t index : members) {
      release(graph_.nodes[index]);
      done_[index] = true;
    }
  }

  void prepare(const LinearGroup& group, Operand x) {
    for (const Preparation kind : {Preparation::f32, Preparation::q8}) {
      const bool wanted = std::any_of(group.members.begin(), group.members.end(), [&](const Linear& member) {
        return plan_.kernels.preparation(member.type) == kind;
      });
      if (wanted) row_op(group.rows, PrepareOp{kind, x});
    }
  }

  Engine::Plan& plan_;
  const Graph& graph_;
  std::vector<bool> done_;                       // by node
  std::vector<ValueId> root_;                    // by value: whose slot it looks into
  std::vector<std::int64_t> uses_;               // by root: reads still to come
  std::vector<std::vector<std::size_t>> users_;  // by root: nodes that read it
  std::vector<Rows> rows_;                       // by value
  std::vector<bool> after_pick_;                 // by value: made from picked rows
  std::vector<Operand> operands_;                // by value
  std::vector<int> keys_of_;                     // by value: the state whose contents it is, or -1
  std::map<ValueId, int> state_index_;
  std::map<ValueId, std::size_t> postponed_;  // activation results left to their multiply
  std::map<std::pair<std::int64_t, bool>, std::vector<int>> free_slots_;
  std::map<ValueId, const float*> vectors_;
  int kept_ = -1;  // slot that the node's result took over
  RowBlock block_;
};

const KernelSet& chosen_kernels(const EngineOptions& options) {
  return options.kernels != nullptr ? *options.kernels : best_kernel_set();
}

int chosen_threads(const EngineOptions& options) {
  return options.threads > 0 ? options.threads : allowed_cores();
}

}  // namespace

Engine::Plan::Plan(const models::Model& model_in, const EngineOptions& options)
    : model(model_in), kernels(chosen_kernels(options)), pool(chosen_threads(options)) {
  Compiler(*this).compile();
}

}  // namespace pastkv::engine
