#include "targets/coreml/transformers_layout.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace pastkv::targets::coreml {
namespace {

using graph::Dim;
using graph::Node;
using graph::Op;
using graph::Symbol;
using graph::ValueId;

// A key that must not be seen gets this score: far below any score, and finite in fp16 when a score is added.
constexpr double kMasked = -40000.0;
// The caller's mask is cut here, so that a row which it masks as a whole stays finite (infinity less infinity is none).
constexpr double kLeastMask = -30000.0;

class TransformersLayout : public Lowering {
 public:
  TransformersLayout(const graph::Graph& graph, const WeightOffsets& offsets, proto::DataType weight_type,
                     CoremlPrecision precision, const StateSizes& states, FunctionWriter& writer)
      : Lowering(graph, offsets, weight_type, precision, writer),
        states_(states),
        score_type_(precision == CoremlPrecision::fp16 ? proto::FLOAT16 : proto::FLOAT32) {}

  void run() {
    declare();
    find_sizes();
    find_written();
    find_positions();
    lower(0, graph_.nodes.size());
    w_.output(get(graph_.outputs.at(0)), "logits");
  }

 private:
  // --- sizes ---

  std::int64_t size(const Dim& dim) const override {
    if (dim == Dim(Symbol::batch)) return 1;
    return dim.is_constant() ? dim.constant() : kAnySize;
  }

  // The graph counts tokens; slots that nobody wrote are none.
  Tensor run_time_integer(const Dim& dim) override {
    Tensor sum = w_.integers({dim.constant()});
    const auto term = [&](const Tensor& symbol, std::int64_t coefficient) {
      if (coefficient == 0) return;
      const Tensor times = coefficient == 1 ? symbol : integer_op("mul", symbol, w_.integers({coefficient}));
      sum = integer_op("add", sum, times);
    };
    const std::int64_t total = dim.coefficient(Symbol::past);
    if (total != 0) term(integer_op("sub", end_, unwritten_), total);
    term(query_, dim.coefficient(Symbol::query) + dim.coefficient(Symbol::rows) - total);
    return sum;
  }

  Tensor integer_op(const char* type, const Tensor& x, const Tensor& y) {
    return w_.op(type, {{"x", x}, {"y", y}}, {.dtype = proto::INT32, .shape = {1}});
  }

  // --- inputs, and what follows from their shapes ---

  void declare() {
    ids_ = w_.input("inputIds", {.dtype = proto::INT32, .shape = {1, kAnySize}});
    mask_ = w_.input("causalMask", {.dtype = proto::FLOAT16, .shape = {1, 1, kAnySize, kAnySize}});
    const TensorType state{.dtype = proto::FLOAT16,
                           .shape = {states_.layers, 1, states_.heads, states_.context, states_.head_dim}};
    keys_ = w_.state("keyCache", state);
    values_ = w_.state("valueCache", state);
    for (const ValueId id : graph_.inputs) {
      if (value(id).name == "input_ids") set(id, ids_);
    }
  }

  Tensor size_along(const Tensor& x, std::int64_t axis, const char* hint) {
    const Tensor shape =
        w_.op("shape", {{"x", x}}, {.dtype = proto::INT32, .shape = {static_cast<std::int64_t>(x.type.shape.size())}});
    return w_.op("slice_by_index", {{"x", shape}, {"begin", w_.integers({axis})}, {"end", w_.integers({axis + 1})}},
                 {.dtype = proto::INT32, .shape = {1}}, hint);
  }

  void find_sizes() {
    query_ = size_along(ids_, 1, "query_length");
    end_ = size_along(mask_, 3, "end");
    past_ = integer_op("sub", end_, query_);
    const Tensor end = w_.op("squeeze", {{"x", end_}, {"axes", w_.integers({0})}}, {.dtype = proto::INT32});
    slots_ = w_.op("range_1d", {{"start", w_.integer(0)}, {"end", end}, {"step", w_.integer(1)}},
                   {.dtype = proto::INT32, .shape = {kAnySize}}, "slots");
  }

  // [1, 1, 1, end]: whether a slot holds a token. One that was never written has a key of zeros in every layer; a real
  // token has none in the last. The slots of this call are about to be written.
  void find_written() {
    const Tensor held = read_layer(keys_, states_.layers - 1, states_.heads, states_.head_dim);
    const Tensor size = w_.op("abs", {{"x", held}}, held.type);
    const Tensor largest =
        w_.op("reduce_max", {{"x", size}, {"axes", w_.integers({1, 3})}, {"keep_dims", w_.boolean(false)}},
              {.dtype = proto::FLOAT16, .shape = {1, kAnySize}});
    const TensorType row{.dtype = proto::BOOL, .shape = {1, kAnySize}};
    const Tensor is_held = w_.op("greater", {{"x", largest}, {"y", w_.number(0.0, proto::FLOAT16)}}, row);
    const Tensor is_new =
        w_.op("greater_equal", {{"x", slots_}, {"y", past_}}, {.dtype = proto::BOOL, .shape = {kAnySize}});
    const Tensor is_written = w_.op("logical_or", {{"x", is_held}, {"y", is_new}}, row, "is_written");
    written_ = w_.op("expand_dims", {{"x", is_written}, {"axes", w_.integers({1, 2})}},
                     {.dtype = proto::BOOL, .shape = {1, 1, 1, kAnySize}});
    const Tensor counted = cast(is_written, proto::INT32);
    const Tensor tokens =
        w_.op("reduce_sum", {{"x", counted}, {"axes", w_.integers({1})}, {"keep_dims", w_.boolean(false)}},
              {.dtype = proto::INT32, .shape = {1}}, "tokens");
    unwritten_ = w_.op("sub", {{"x", end_}, {"y", tokens}}, {.dtype = proto::INT32, .shape = {1}}, "unwritten");
  }

  // Positions count tokens from 0: slots that were never written stand before all of them.
  void find_positions() {
    query_slots_ = w_.op("slice_by_index", {{"x", slots_}, {"begin", past_}, {"end", end_}},
                         {.dtype = proto::INT32, .shape = {kAnySize}}, "query_slots");
    const Tensor positions =
        w_.op("sub", {{"x", query_slots_}, {"y", unwritten_}}, {.dtype = proto::INT32, .shape = {kAnySize}});
    const Tensor row = w_.op("expand_dims", {{"x", positions}, {"axes", w_.integers({0})}},
                             {.dtype = proto::INT32, .shape = {1, kAnySize}}, "positions");
    for (const ValueId id : graph_.inputs) {
      if (value(id).name == "position_ids") set(id, row);
    }
  }

  // --- states ---

  // [1, heads, end, head_dim] of one layer.
  Tensor read_layer(const Tensor& state, std::int64_t layer, std::int64_t heads, std::int64_t head_dim) {
    const Tensor all = w_.op("read_state", {{"input", state}}, state.type);
    return w_.op("slice_by_index",
                 {{"x", all},
                  {"begin", w_.integers({layer, 0, 0, 0, 0})},
                  {"end", bounds(layer + 1, heads, end_, head_dim)},
                  {"squeeze_mask", w_.booleans({true, false, false, false, false})}},
                 {.dtype = proto::FLOAT16, .shape = {1, heads, kAnySize, head_dim}});
  }

  // [layer, 1, heads, slot, head_dim] as a tensor; slot is known at run time.
  Tensor bounds(std::int64_t layer, std::int64_t heads, const Tensor& slot, std::int64_t head_dim) {
    const std::string key = fmt::format("{} {} {} {}", layer, heads, head_dim, slot.name);
    const auto known = bounds_.find(key);
    if (known != bounds_.end()) return known->second;
    const bool is_begin = heads == 0;
    const std::vector<Tensor> parts{w_.integers({layer, is_begin ? 0 : 1, heads}), slot, w_.integers({head_dim})};
    return bounds_[key] =
               w_.op("concat", {{"values", parts}, {"axis", w_.integer(0)}, {"interleave", w_.boolean(false)}},
                     {.dtype = proto::INT32, .shape = {5}});
  }

  // The rows of this call go into their slots; what the layer then holds is the result.
  void update_state(const Node& node) {
    const graph::State& state = *graph_.state_of(node.inputs[0]);
    const Tensor& buffer = state.role == graph::StateRole::key ? keys_ : values_;
    const auto layer = static_cast<std::int64_t>(state.layer);
    const Tensor x = get(node.inputs[1], proto::FLOAT16);  // [1, query, heads, head_dim]
    const std::int64_t heads = x.type.shape[2];
    const std::int64_t head_dim = x.type.shape[3];
    const Tensor turned = w_.op("transpose", {{"x", x}, {"perm", w_.integers({0, 2, 1, 3})}},
                                {.dtype = proto::FLOAT16, .shape = {1, heads, kAnySize, head_dim}});
    const Tensor rows = w_.op("expand_dims", {{"x", turned}, {"axes", w_.integers({0})}},
                              {.dtype = proto::FLOAT16, .shape = {1, 1, heads, kAnySize, head_dim}});
    const Tensor before = w_.op("read_state", {{"input", buffer}}, buffer.type);
    const Tensor after = w_.op("slice_update",
                               {{"x", before},
                                {"update", rows},
                                {"begin", bounds(layer, 0, past_, 0)},
                                {"end", bounds(layer + 1, heads, end_, head_dim)}},
                               buffer.type);
    w_.write_state(buffer, after);
    set(node.outputs[0], read_layer(buffer, layer, heads, head_dim));
  }

  // --- attention ---

  // [1, 1, query, end], to be added to scores: causality, window, slots never written, and the caller's mask.
  const Tensor& mask(std::int64_t window) {
    const auto known = masks_.find(window);
    if (known != masks_.end()) return known->second;
    const TensorType whole{.dtype = proto::BOOL, .shape = {1, 1, kAnySize, kAnySize}};
    const Tensor column = w_.op("expand_dims", {{"x", query_slots_}, {"axes", w_.integers({0, 1, 3})}},
                                {.dtype = proto::INT32, .shape = {1, 1, kAnySize, 1}});
    const Tensor causal = w_.op("less_equal", {{"x", slots_}, {"y", column}}, whole);
    Tensor visible = w_.op("logical_and", {{"x", causal}, {"y", written_}}, whole);
    if (window != 0) {
      const Tensor last_hidden = w_.op("sub", {{"x", column}, {"y", w_.integer(window)}}, column.type);
      const Tensor near = w_.op("greater", {{"x", slots_}, {"y", last_hidden}}, whole);
      visible = w_.op("logical_and", {{"x", visible}, {"y", near}}, whole);
    }
    const TensorType scores{.dtype = score_type_, .shape = {1, 1, kAnySize, kAnySize}};
    const Tensor asked =
        w_.op("maximum", {{"x", cast(mask_, score_type_)}, {"y", w_.number(kLeastMask, score_type_)}}, scores);
    return masks_[window] = w_.op("select", {{"cond", visible}, {"a", asked}, {"b", w_.number(kMasked, score_type_)}},
                                  scores, "mask");
  }

  // Query heads that share a KV head stand one below the other, so that no key is copied.
  void attend(const Node& node) {
    const auto& attributes = std::get<graph::AttentionAttributes>(node.attributes);
    const proto::DataType type = matrix_type();
    const Tensor q = get(node.inputs[0], type);       // [1, query, heads, head_dim]
    const Tensor keys = get(node.inputs[1], type);    // [1, kv_heads, end, head_dim]
    const Tensor values = get(node.inputs[2], type);  // [1, kv_heads, end, value_dim]
    const std::int64_t heads = q.type.shape[2];
    const std::int64_t head_dim = q.type.shape[3];
    const std::int64_t kv_heads = keys.type.shape[1];
    const std::int64_t value_dim = values.type.shape[3];
    const std::int64_t group = heads / kv_heads;

    const Tensor scaled = w_.op("mul", {{"x", q}, {"y", w_.number(attributes.scale, type)}}, q.type);
    Tensor rows = w_.op("transpose", {{"x", scaled}, {"perm", w_.integers({0, 2, 1, 3})}},
                        {.dtype = type, .shape = {1, heads, kAnySize, head_dim}});
    rows = reshaped(rows, {1, kv_heads, kAnySize, head_dim}, group);
    Tensor scores = w_.op(
        "matmul", {{"x", rows}, {"y", keys}, {"transpose_x", w_.boolean(false)}, {"transpose_y", w_.boolean(true)}},
        {.dtype = type, .shape = {1, kv_heads, kAnySize, kAnySize}});
    scores = cast(scores, score_type_);
    if (attributes.softcap != 0.0F) {
      const Tensor cap = w_.number(attributes.softcap, score_type_);
      const Tensor turned =
          w_.op("tanh", {{"x", w_.op("real_div", {{"x", scores}, {"y", cap}}, scores.type)}}, scores.type);
      scores = w_.op("mul", {{"x", turned}, {"y", cap}}, scores.type);
    }
    if (group > 1) scores = reshape_to_end(scores, {kv_heads, group});
    scores = w_.op("add", {{"x", scores}, {"y", mask(attributes.window)}}, scores.type);
    Tensor weights = w_.op("softmax", {{"x", scores}, {"axis", w_.integer(-1)}}, scores.type);
    weights = cast(weights, type);
    if (group > 1) weights = reshape_to_end(weights, {1, kv_heads});
    Tensor mixed =
        w_.op("matmul",
              {{"x", weights}, {"y", values}, {"transpose_x", w_.boolean(false)}, {"transpose_y", w_.boolean(false)}},
              {.dtype = type, .shape = {1, kv_heads, kAnySize, value_dim}});
    mixed = reshaped(mixed, {1, heads, kAnySize, value_dim}, group);
    set(node.outputs[0], w_.op("transpose", {{"x", mixed}, {"perm", w_.integers({0, 2, 1, 3})}},
                               {.dtype = type, .shape = {1, kAnySize, heads, value_dim}}));
  }

  Tensor reshaped(const Tensor& x, std::vector<std::int64_t> shape, std::int64_t group) {
    if (group == 1) return x;
    return w_.op("reshape", {{"x", x}, {"shape", w_.integers(shape)}}, {.dtype = x.type.dtype, .shape = shape});
  }

  // [first, second, rows, end], rows being what is left.
  Tensor reshape_to_end(const Tensor& x, const std::vector<std::int64_t>& leading) {
    Tensor& shape = shapes_[leading];
    if (shape.name.empty()) {
      shape = w_.op("concat",
                    {{"values", std::vector<Tensor>{w_.integers({leading[0], leading[1], -1}), end_}},
                     {"axis", w_.integer(0)},
                     {"interleave", w_.boolean(false)}},
                    {.dtype = proto::INT32, .shape = {4}});
    }
    return w_.op("reshape", {{"x", x}, {"shape", shape}},
                 {.dtype = x.type.dtype, .shape = {leading[0], leading[1], kAnySize, kAnySize}});
  }

  void lower_special(const Node& node) override {
    switch (node.op) {
      case Op::state_update:
        return update_state(node);
      case Op::attention:
        return attend(node);
      case Op::pick_rows:  // callers read the logits of any position
        return set(node.outputs[0], get(node.inputs[0]));
      case Op::linear: {
        std::vector<Operand> operands{{"x", get(node.inputs[0], matrix_type())},
                                      {"weight", get(node.inputs[1], matrix_type())}};
        if (node.inputs.size() == 3) operands.emplace_back("bias", get(node.inputs[2], matrix_type()));
        return set(node.outputs[0],
                   w_.op("linear", operands, {.dtype = matrix_type(), .shape = shape_of(node.outputs[0])}));
      }
      default:
        throw std::logic_error(fmt::format("{} was not to be kept", graph::name(node.op)));
    }
  }

  StateSizes states_;
  proto::DataType score_type_;
  Tensor ids_, mask_, keys_, values_;
  Tensor query_, end_, past_;   // [1]
  Tensor slots_, query_slots_;  // [end], [query]
  Tensor written_, unwritten_;  // [1, 1, 1, end], [1]
  std::map<std::string, Tensor> bounds_;
  std::map<std::int64_t, Tensor> masks_;  // by window
  std::map<std::vector<std::int64_t>, Tensor> shapes_;
};

// A flexible input: every axis from its first to its last size, 1 by default where it is flexible.
void describe_input(proto::FeatureDescription& feature, const char* name, proto::ArrayFeatureType::ArrayDataType dtype,
                    const std::vector<std::int64_t>& largest) {
  feature.set_name(name);
  proto::ArrayFeatureType& array = *feature.mutable_type()->mutable_multiarraytype();
  array.set_datatype(dtype);
  for (const std::int64_t size : largest) {
    array.add_shape(1);
    proto::SizeRange& range = *array.mutable_shaperange()->add_sizeranges();
    range.set_lowerbound(1);
    range.set_upperbound(size);
  }
}

void describe_state(proto::FeatureDescription& feature, const char* name, const StateSizes& states) {
  feature.set_name(name);
  proto::ArrayFeatureType& array = *feature.mutable_type()->mutable_statetype()->mutable_arraytype();
  array.set_datatype(proto::ArrayFeatureType::FLOAT16);
  for (const std::int64_t size : {states.layers, std::int64_t{1}, states.heads, states.context, states.head_dim}) {
    array.add_shape(size);
  }
}

}  // namespace

void write_transformers_function(const graph::Graph& graph, const WeightOffsets& offsets, proto::DataType weight_type,
                                 CoremlPrecision precision, const StateSizes& states, proto::Function& function,
                                 proto::ModelDescription& description) {
  FunctionWriter writer(function);
  TransformersLayout(graph, offsets, weight_type, precision, states, writer).run();

  describe_input(*description.add_input(), "inputIds", proto::ArrayFeatureType::INT32, {1, states.context});
  describe_input(*description.add_input(), "causalMask", proto::ArrayFeatureType::FLOAT16,
                 {1, 1, states.context, states.context});
  proto::FeatureDescription& logits = *description.add_output();
  logits.set_name("logits");
  logits.mutable_type()->mutable_multiarraytype()->set_datatype(
      precision == CoremlPrecision::fp16 ? proto::ArrayFeatureType::FLOAT16 : proto::ArrayFeatureType::FLOAT32);
  describe_state(*description.add_state(), "keyCache", states);
  describe_state(*description.add_state(), "valueCache", states);
}

}  // namespace pastkv::targets::coreml
