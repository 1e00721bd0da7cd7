#include "targets/onnx/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "graph/expand.h"
#include "graph/variant.h"
#include "targets/onnx/node_writer.h"

namespace pastkv::targets {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::Op;
using graph::Shape;
using graph::Symbol;
using graph::Value;
using graph::ValueId;
using graph::ValueKind;
using onnx::TensorProto;
using tensor::DType;

constexpr std::string_view kContribDomain = "com.microsoft";
constexpr std::int64_t kToTheEnd = std::numeric_limits<std::int64_t>::max();

// A value in ONNX: one tensor under its full shape, as rows [elements / width, width], or in a shape that a reshape
// left behind, and all of them when asked for.
struct Forms {
  std::string full;
  std::string flat;
  std::string other;
  DType type = DType::f32;

  const std::string& any() const { return !flat.empty() ? flat : !full.empty() ? full : other; }
};

// GroupQueryAttention takes heads of whole groups of 8 channels.
bool fits_grouped_attention(const Graph& graph) {
  return std::ranges::all_of(
      graph.states, [&](const graph::State& state) { return graph.value(state.value).shape[3].constant() % 8 == 0; });
}

// Composite operations that ONNX says shorter than their expansion.
std::set<Op> kept(const Graph& graph, const OnnxOptions& options) {
  std::set<Op> ops = {Op::embedding,  Op::linear, Op::rms_norm, Op::layer_norm,
                      Op::activation, Op::split,  Op::pick_rows};
  if (options.ops == OnnxOps::contrib && fits_grouped_attention(graph)) {
    ops.insert({Op::state_update, Op::attention});
  }
  return ops;
}

class Lowering {
 public:
  Lowering(const Graph& source, const std::vector<const models::WeightRows*>& rows, const OnnxOptions& options,
           onnx::GraphProto& out, OnnxWeights& weights)
      : g_(graph::expand(source, {.keep = kept(source, options)})),
        options_(options),
        out_(out),
        weights_(weights),
        w_(out),
        float_(options.precision == OnnxPrecision::fp16 ? DType::f16 : DType::f32),
        forms_(g_.values.size()),
        rows_(g_.values.size(), nullptr) {
    for (std::size_t i = 0; i < source.values.size(); ++i) {
      if (rows[i] != nullptr) rows_[at(g_.find(source.values[i].name))] = rows[i];
    }
  }

  std::vector<std::string> run() {
    if (contrib() && !fits_grouped_attention(g_)) {
      notes_.emplace_back("heads of a width that GroupQueryAttention does not take: attention in standard operations");
    }
    write_inputs();
    plan_weights();
    plan_names();
    for (const Node& node : g_.nodes) lower(node);
    write_outputs();
    return std::move(notes_);
  }

 private:
  static std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }
  const Value& value(ValueId id) const { return g_.value(id); }
  Forms& forms(ValueId id) { return forms_[at(id)]; }

  // --- the border ---

  void declare(onnx::ValueInfoProto& info, const std::string& name, DType type, const std::vector<std::string>& dims) {
    info.set_name(name);
    onnx::TypeProto::Tensor& tensor = *info.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(type == DType::i64   ? TensorProto::INT64
                         : type == DType::f16 ? TensorProto::FLOAT16
                                              : TensorProto::FLOAT);
    tensor.mutable_shape();
    for (const std::string& dim : dims) {
      onnx::TensorShapeProto::Dimension& added = *tensor.mutable_shape()->add_dim();
      const bool number = !dim.empty() && dim.find_first_not_of("0123456789") == std::string::npos;
      number ? added.set_dim_value(std::stoll(dim)) : added.set_dim_param(dim);
    }
    w_.take(name);
  }

  // Symbols by the names that optimum gives them; readers of the file know these.
  std::vector<std::string> symbolic(const Shape& shape) const {
    std::vector<std::string> names;
    for (const Dim& dim : shape) {
      if (dim.is_constant()) {
        names.push_back(fmt::format("{}", dim.constant()));
      } else if (dim == Symbol::batch) {
        names.emplace_back("batch_size");
      } else if (dim == Symbol::query || dim == Symbol::rows) {
        names.emplace_back("sequence_length");
      } else if (dim == Symbol::past || dim == Symbol::context) {
        names.emplace_back("past_sequence_length");
      } else {
        names.emplace_back("past_sequence_length + sequence_length");
      }
    }
    return names;
  }

  std::string state_name(ValueId id, std::string_view prefix) const {
    const graph::State& state = *g_.state_of(id);
    return fmt::format("{}.{}.{}", prefix, state.layer, graph::name(state.role));
  }

  void write_inputs() {
    for (const ValueId id : g_.inputs) {
      declare(*out_.add_input(), value(id).name, DType::i64, symbolic(value(id).shape));
      forms(id) = {.full = value(id).name, .flat = {}, .other = {}, .type = value(id).dtype};
    }
    for (const graph::State& state : g_.states) {
      const std::string name = state_name(state.value, "past_key_values");
      declare(*out_.add_input(), name, float_, symbolic(value(state.value).shape));
      forms(state.value) = {.full = name, .flat = {}, .other = {}, .type = float_};
    }
    declare(*out_.add_input(), kLogitsToKeep, DType::i64, {});
    if (options_.require_logits_to_keep) return;
    TensorProto& keep_all = *out_.add_initializer();
    keep_all.set_name(kLogitsToKeep);
    keep_all.set_data_type(TensorProto::INT64);
    keep_all.add_int64_data(0);
  }

  // Results that the outside knows by name.
  void plan_names() {
    for (const ValueId id : g_.outputs) names_[id] = value(id).name;
    for (const Node& node : g_.nodes) {
      if (node.op == Op::state_write) names_[node.inputs[1]] = state_name(node.inputs[0], "present");
    }
    for (const auto& [id, name] : names_) w_.take(name);
  }

  void write_outputs() {
    for (const ValueId id : g_.outputs) {
      if (const std::string made = full(id); made != value(id).name) w_.node("Identity", {made}, {}, value(id).name);
      declare(*out_.add_output(), value(id).name, forms(id).type, symbolic(value(id).shape));
    }
    for (const graph::State& state : g_.states) {
      Shape shape = value(state.value).shape;
      shape[2] = Dim(Symbol::past) + Symbol::query;
      declare(*out_.add_output(), state_name(state.value, "present"), float_, symbolic(shape));
    }
  }

  // --- weights ---

  bool quantized() const {
    return options_.precision == OnnxPrecision::int8 || options_.precision == OnnxPrecision::int4;
  }

  void plan_weights() {
    std::map<ValueId, bool> is_table;
    std::map<ValueId, bool> is_matrix;
    std::map<ValueId, bool> is_norm;
    for (const Node& node : g_.nodes) {
      if (node.op == Op::embedding) is_table[node.inputs[1]] = true;
      if (node.op == Op::linear) is_matrix[node.inputs[1]] = true;
      if (node.op == Op::rms_norm || node.op == Op::layer_norm) {
        for (std::size_t i = 1; i < node.inputs.size(); ++i) is_norm[node.inputs[i]] = true;
      }
    }
    for (std::size_t i = 0; i < g_.values.size(); ++i) {
      const Value& weight = g_.values[i];
      if (weight.kind != ValueKind::weight) continue;
      const auto id = static_cast<ValueId>(i);
      const models::WeightRows& rows = *rows_[i];
      w_.take(weight.name);
      const bool matrix = is_matrix[id] || is_table[id];
      OnnxEncoding encoding = float_ == DType::f16 && !is_norm[id] ? OnnxEncoding::f16 : OnnxEncoding::f32;
      if (quantized() && matrix && !has_blocks(rows.width())) {
        notes_.push_back(fmt::format("{}: rows of {} are no whole number of blocks of 32; written as fp32", weight.name,
                                     rows.width()));
      } else if (quantized() && matrix) {
        // A table is read by rows: whole bytes.
        const bool four = options_.precision == OnnxPrecision::int4 && !is_table[id];
        encoding = contrib() ? (four ? OnnxEncoding::uint4 : OnnxEncoding::uint8)
                             : (four ? OnnxEncoding::int4 : OnnxEncoding::int8);
      }
      encodings_[id] = encoding;
      const bool blocks = encoding != OnnxEncoding::f32 && encoding != OnnxEncoding::f16;
      stored_[id] = weights_.add(rows, weight.name, encoding, blocks && contrib());
      forms(id) = {.full = stored_[id].values,
                   .flat = {},
                   .other = {},
                   .type = encoding == OnnxEncoding::f16 ? DType::f16 : DType::f32};
    }
  }

  bool contrib() const { return options_.ops == OnnxOps::contrib; }

  // --- forms and types ---

  void made(ValueId id, std::string full, DType type) {
    forms(id) = {.full = std::move(full), .flat = {}, .other = {}, .type = type};
  }
  void made_flat(ValueId id, std::string flat, DType type) {
    forms(id) = {.full = {}, .flat = std::move(flat), .other = {}, .type = type};
  }
  std::string wanted(ValueId id) const {
    const auto named = names_.find(id);
    return named == names_.end() ? "" : named->second;
  }

  std::string cast(const std::string& name, DType from, DType to) {
    if (from == to) return name;
    const auto [known, is_new] = casts_.try_emplace({name, to});
    if (is_new) {
      const int type = to == DType::f16       ? TensorProto::FLOAT16
                       : to == DType::f32     ? TensorProto::FLOAT
                       : to == DType::boolean ? TensorProto::BOOL
                                              : TensorProto::INT64;
      known->second = w_.node("Cast", {name}, {{"to", type}});
    }
    return known->second;
  }

  // A constant is made in the type that is wanted.
  std::string constant(ValueId id, DType type) {
    const Value& held = value(id);
    std::vector<std::int64_t> shape;
    for (const Dim& dim : held.shape) shape.push_back(dim.constant());
    if (type == DType::f32 || type == DType::f16) return w_.floats(held.data, shape, type == DType::f16);
    std::vector<std::int64_t> numbers;
    for (const double number : held.data) numbers.push_back(static_cast<std::int64_t>(number));
    return w_.integers(numbers, shape);
  }

  bool is_float(ValueId id) const { return value(id).dtype == DType::f32; }

  // The value under its own shape; floats in `type` where that is said.
  std::string full(ValueId id, std::optional<DType> type = {}) {
    if (value(id).kind == ValueKind::constant)
      return constant(id, is_float(id) ? type.value_or(DType::f32) : DType::i64);
    Forms& form = forms(id);
    if (form.full.empty()) {
      form.full = w_.node("Reshape", {form.any(), w_.reshape_target(value(id).shape)}, {}, wanted(id));
    }
    return type && is_float(id) ? cast(form.full, form.type, *type) : form.full;
  }

  std::string flat(ValueId id, DType type) {
    const Shape& shape = value(id).shape;
    if (shape.size() == 2) return full(id, type);
    Forms& form = forms(id);
    if (form.flat.empty()) {
      form.flat = w_.node("Reshape", {form.any(), w_.integers({-1, shape.back().constant()})});
    }
    return cast(form.flat, form.type, type);
  }

  // As rows, when it is there so already; else under its own shape. For what goes along the last axis or element by
  // element.
  bool is_flat(ValueId id) { return value(id).kind == ValueKind::result && !forms(id).flat.empty(); }
  void along(ValueId out, ValueId in, DType type, const std::function<std::string(const std::string&)>& write) {
    if (is_flat(in)) {
      made_flat(out, write(flat(in, type)), type);
    } else {
      made(out, write(full(in, type)), type);
    }
  }

  // --- nodes ---

  void lower(const Node& node) {
    const ValueId out = node.outputs[0];
    switch (node.op) {
      case Op::embedding:
        return embedding(node);
      case Op::linear:
        return linear(node);
      case Op::rms_norm:
        return along(out, node.inputs[0], DType::f32, [&](const std::string& x) { return rms_norm(node, x); });
      case Op::layer_norm:
        return along(out, node.inputs[0], DType::f32, [&](const std::string& x) { return layer_norm(node, x); });
      case Op::activation:
        return along(out, node.inputs[0], float_, [&](const std::string& x) { return activation(node, x); });
      case Op::split:
        return split(node);
      case Op::pick_rows:
        return pick_rows(node);
      case Op::reshape:
        return reshape(node);
      case Op::state_update:
        return;  // written with the attention that reads it
      case Op::attention:
        return attention(node);
      case Op::state_read:
        return made(out, forms(node.inputs[0]).full, float_);
      case Op::state_write:
        full(node.inputs[1]);
        forms(out) = forms(node.inputs[1]);
        return;
      default:
        return primitive(node);
    }
  }

  // A reshape costs nothing until somebody needs the new shape.
  void reshape(const Node& node) {
    const ValueId in = node.inputs[0];
    if (value(in).kind == ValueKind::constant || value(in).kind == ValueKind::weight) {
      made(node.outputs[0], w_.node("Reshape", {full(in, float_), w_.reshape_target(value(node.outputs[0]).shape)}),
           is_float(in) ? float_ : value(in).dtype);
      return;
    }
    Forms form = forms(in);
    const Shape& shape = value(node.outputs[0]).shape;
    const Shape& before = value(in).shape;
    const bool same_rows = !shape.empty() && !before.empty() && shape.back() == before.back();
    forms(node.outputs[0]) = {.full = {}, .flat = same_rows ? form.flat : "", .other = form.any(), .type = form.type};
  }

  void embedding(const Node& node) {
    const ValueId table = node.inputs[1];
    const ValueId out = node.outputs[0];
    const std::string ids = full(node.inputs[0]);
    const OnnxStored& stored = stored_.at(table);
    const std::string rows = w_.node("Gather", {stored.values, ids});
    if (stored.scales.empty()) return made(out, rows, forms(table).type);

    // Blocks of a row, [batch, query, blocks, 32], times their scales.
    const std::int64_t blocks = value(out).shape.back().constant() / OnnxWeights::kBlock;
    std::string numbers = w_.node("Cast", {rows}, {{"to", static_cast<int>(TensorProto::FLOAT)}});
    if (contrib()) {
      numbers = w_.node("Sub", {numbers, w_.floats({128.0}, {}, false)});
    } else {
      numbers =
          w_.node("Reshape", {numbers, w_.reshape_target({Symbol::batch, Symbol::query, blocks, OnnxWeights::kBlock})});
    }
    const std::string scales = w_.node("Unsqueeze", {w_.node("Gather", {stored.scales, ids}), w_.integers({-1})});
    forms(out) = {.full = {}, .flat = {}, .other = w_.node("Mul", {numbers, scales}), .type = DType::f32};
  }

  void linear(const Node& node) {
    const ValueId x = node.inputs[0];
    const ValueId matrix = node.inputs[1];
    const OnnxStored& stored = stored_.at(matrix);
    if (stored.scales.empty()) {
      std::vector<std::string> inputs = {flat(x, float_), full(matrix, float_)};
      if (node.inputs.size() == 3) inputs.push_back(full(node.inputs[2], float_));
      return made_flat(node.outputs[0], w_.node("Gemm", inputs, {{"transB", 1}}), float_);
    }
    std::string y = contrib() ? blocks_by_matmul(node, stored) : blocks_by_gemm(node, stored);
    made_flat(node.outputs[0], std::move(y), DType::f32);
  }

  std::string blocks_by_gemm(const Node& node, const OnnxStored& stored) {
    auto& matrix = dequantized_[node.inputs[1]];
    if (matrix.empty()) {
      matrix = w_.node("DequantizeLinear", {stored.values, stored.scales}, {{"axis", 1}, {"block_size", 32}});
    }
    std::vector<std::string> inputs = {flat(node.inputs[0], float_), matrix};
    if (node.inputs.size() == 3) inputs.push_back(full(node.inputs[2], float_));
    return w_.node("Gemm", inputs, {{"transB", 1}});
  }

  // Activations stay fractions: rounding them to int8 (accuracy_level 4) is faster on some processors, and moves logits
  // of small models by a twentieth of their spread.
  std::string blocks_by_matmul(const Node& node, const OnnxStored& stored) {
    const Shape& shape = value(node.inputs[1]).shape;
    const bool four = encodings_.at(node.inputs[1]) == OnnxEncoding::uint4;
    std::string y = w_.fresh("MatMulNBits");
    w_.node("MatMulNBits", kContribDomain, {flat(node.inputs[0], float_), stored.values, stored.scales}, {y},
            {{"K", shape[1].constant()},
             {"N", shape[0].constant()},
             {"bits", four ? 4 : 8},
             {"block_size", OnnxWeights::kBlock}});
    if (node.inputs.size() == 3) y = w_.node("Add", {y, full(node.inputs[2], float_)});
    return y;
  }

  std::string gain(ValueId weight, float offset) {
    const std::string stored = full(weight, DType::f32);
    return offset == 0.0F ? stored : w_.node("Add", {stored, w_.floats({offset}, {}, false)});
  }

  std::string rms_norm(const Node& node, const std::string& x) {
    const auto& norm = std::get<graph::NormAttributes>(node.attributes);
    const std::string weight = gain(node.inputs[1], norm.weight_offset);
    // ONNX Runtime finds its own norm in this; the checker of the standard knows no other.
    const std::string squares = w_.node("Pow", {x, w_.floats({2.0}, {}, false)});
    const std::string mean = w_.node("ReduceMean", {squares, w_.integers({-1})}, {{"keepdims", 1}});
    const std::string root = w_.node("Sqrt", {w_.node("Add", {mean, w_.floats({norm.epsilon}, {}, false)})});
    return w_.node("Mul", {w_.node("Div", {x, root}), weight});
  }

  std::string layer_norm(const Node& node, const std::string& x) {
    const auto& norm = std::get<graph::NormAttributes>(node.attributes);
    std::vector<std::string> inputs = {x, gain(node.inputs[1], norm.weight_offset)};
    if (node.inputs.size() == 3) inputs.push_back(full(node.inputs[2], DType::f32));
    return w_.node("LayerNormalization", inputs, {{"axis", -1}, {"epsilon", norm.epsilon}});
  }

  std::string activation(const Node& node, const std::string& x) {
    switch (std::get<graph::ActivationAttributes>(node.attributes).kind) {
      case graph::Activation::silu:
        return w_.node("Mul", {x, w_.node("Sigmoid", {x})});
      case graph::Activation::relu:
        return w_.node("Relu", {x});
      case graph::Activation::gelu_tanh:
        return w_.node("Gelu", {x}, {{"approximate", "tanh"}});
      case graph::Activation::gelu_erf:
        return w_.node("Gelu", {x});
    }
    __builtin_unreachable();
  }

  void split(const Node& node) {
    const auto& sizes = std::get<graph::SplitAttributes>(node.attributes).sizes;
    const ValueId in = node.inputs[0];
    const bool rows = is_flat(in);
    const DType type = forms(in).type;
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < sizes.size(); ++i) parts.push_back(w_.fresh("Split"));
    w_.node("Split", "", {rows ? flat(in, type) : full(in, type), w_.integers(sizes)}, parts, {{"axis", -1}});
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      rows ? made_flat(node.outputs[i], parts[i], type) : made(node.outputs[i], parts[i], type);
    }
  }

  // The last k rows begin at -k; at -0, which is 0, begin all of them.
  void pick_rows(const Node& node) {
    const std::string from = w_.node("Neg", {w_.node("Reshape", {kLogitsToKeep, w_.integers({1})})});
    const DType type = forms(node.inputs[0]).type;
    made(node.outputs[0],
         w_.node("Slice", {full(node.inputs[0], type), from, w_.integers({kToTheEnd}), w_.integers({1})}), type);
  }

  // --- the operation of ONNX Runtime ---

  const Node& maker(ValueId id) const {
    for (const Node& node : g_.nodes) {
      if (std::ranges::find(node.outputs, id) != node.outputs.end()) return node;
    }
    throw std::logic_error("a value without a maker");
  }

  // Every row counts as full; padding goes to the bias, wherever it stands.
  void attention(const Node& node) {
    const auto& with = std::get<graph::AttentionAttributes>(node.attributes);
    const Node& keys = maker(node.inputs[1]);
    const Node& values = maker(node.inputs[2]);
    const Shape& q = value(node.inputs[0]).shape;
    const Shape& k = value(keys.inputs[1]).shape;
    const auto rows = [&](ValueId id) {
      const Shape& shape = value(id).shape;
      const std::int64_t width = shape[2].constant() * shape[3].constant();
      return w_.node("Reshape", {full(id, float_), w_.reshape_target({Symbol::batch, Symbol::query, width})});
    };
    const std::string y = w_.fresh("GroupQueryAttention");
    w_.node("GroupQueryAttention", kContribDomain,
            {rows(node.inputs[0]), rows(keys.inputs[1]), rows(values.inputs[1]), full(keys.inputs[0]),
             full(values.inputs[0]), lengths(), total_length(), "", "", "", bias(node.inputs[3])},
            {y, state_name(keys.inputs[0], "present"), state_name(values.inputs[0], "present")},
            {{"num_heads", q[2].constant()},
             {"kv_num_heads", k[2].constant()},
             {"scale", with.scale},
             {"softcap", with.softcap},
             {"local_window_size", with.window == 0 ? -1 : with.window}});
    forms(node.outputs[0]) = {.full = {}, .flat = {}, .other = y, .type = float_};
  }

  // int32 [batch]: the last position.
  std::string lengths() {
    if (!lengths_.empty()) return lengths_;
    const std::string last = w_.node("Sub", {w_.dim(Dim(Symbol::past) + Symbol::query), w_.integers({1})});
    const std::string each = w_.node("Expand", {last, w_.dim(Symbol::batch)});
    return lengths_ = w_.node("Cast", {each}, {{"to", static_cast<int>(TensorProto::INT32)}});
  }

  std::string total_length() {
    if (!total_length_.empty()) return total_length_;
    const std::string total = w_.node("Squeeze", {w_.dim(Dim(Symbol::past) + Symbol::query)});
    return total_length_ = w_.node("Cast", {total}, {{"to", static_cast<int>(TensorProto::INT32)}});
  }

  // [batch, 1, query, past + query]
  std::string bias(ValueId mask) {
    std::string& known = biases_[mask];
    if (known.empty()) {
      const bool f16 = float_ == DType::f16;
      const std::string row = w_.node("Where", {full(mask), w_.floats({0.0}, {}, f16),
                                                w_.floats({static_cast<double>(graph::kLowestMask)}, {}, f16)});
      known = w_.node("Expand",
                      {row, w_.exact_shape({Symbol::batch, 1, Symbol::query, Dim(Symbol::past) + Symbol::query})});
    }
    return known;
  }

  // --- primitives ---

  void primitive(const Node& node) {
    const ValueId out = node.outputs[0];
    const Value& result = value(out);
    switch (node.op) {
      case Op::add:
      case Op::subtract:
      case Op::multiply:
      case Op::divide:
      case Op::power:
        return arithmetic(node);
      case Op::less:
        return made(out, w_.node("Less", common(node)), DType::boolean);
      case Op::less_equal:
        return made(out, w_.node("LessOrEqual", common(node)), DType::boolean);
      case Op::logical_and:
        return made(out, w_.node("And", {full(node.inputs[0]), full(node.inputs[1])}), DType::boolean);
      case Op::select:
        return select(node);
      case Op::negate:
      case Op::absolute:
      case Op::exponential:
      case Op::square_root:
      case Op::tanh:
      case Op::erf:
      case Op::sine:
      case Op::cosine: {
        const DType type = forms(node.inputs[0]).type;
        return along(out, node.inputs[0], type, [&](const std::string& x) { return w_.node(unary(node.op), {x}); });
      }
      case Op::reduce_sum:
      case Op::reduce_mean:
      case Op::reduce_max: {
        const int axis = std::get<graph::AxisAttributes>(node.attributes).axis;
        const DType type = result_type(out);
        const std::string_view op = node.op == Op::reduce_sum    ? "ReduceSum"
                                    : node.op == Op::reduce_mean ? "ReduceMean"
                                                                 : "ReduceMax";
        return made(out, w_.node(op, {full(node.inputs[0], type), w_.integers({axis})}, {{"keepdims", 1}}), type);
      }
      case Op::softmax:
        return made(out, w_.node("Softmax", {full(node.inputs[0], DType::f32)}, {{"axis", -1}}), DType::f32);
      case Op::cumulative_sum: {
        const int axis = std::get<graph::AxisAttributes>(node.attributes).axis;
        return made(out, w_.node("CumSum", {full(node.inputs[0]), w_.integers({axis}, {})}), result.dtype);
      }
      case Op::gather:
        return made(out, w_.node("Gather", {full(node.inputs[0]), full(node.inputs[1])}), forms(node.inputs[0]).type);
      case Op::matmul:
        return made(out, w_.node("MatMul", {full(node.inputs[0], float_), full(node.inputs[1], float_)}), float_);
      case Op::transpose:
        return transpose(node);
      case Op::slice: {
        const auto& [axis, begin, end] = std::get<graph::SliceAttributes>(node.attributes);
        return made(out, w_.node("Slice", {full(node.inputs[0]), w_.dim(begin), w_.dim(end), w_.integers({axis})}),
                    forms(node.inputs[0]).type);
      }
      case Op::concat:
        return concat(node);
      case Op::expand:
        return made(out, w_.node("Expand", {full(node.inputs[0]), w_.exact_shape(result.shape)}),
                    forms(node.inputs[0]).type);
      case Op::range: {
        const std::string limit = w_.node("Squeeze", {w_.dim(result.shape[0])});
        return made(out, w_.node("Range", {w_.integers({0}, {}), limit, w_.integers({1}, {})}), DType::i64);
      }
      case Op::cast: {
        const DType to = std::get<graph::CastAttributes>(node.attributes).dtype;
        const DType type = to == DType::f32 ? result_type(out) : to == DType::boolean ? to : DType::i64;
        const DType from = is_float(node.inputs[0]) ? forms(node.inputs[0]).type : value(node.inputs[0]).dtype;
        return made(out, cast(full(node.inputs[0]), from == DType::i32 ? DType::i64 : from, type), type);
      }
      default:
        throw std::logic_error(fmt::format("ONNX has no node for {}", graph::name(node.op)));
    }
  }

  static std::string_view unary(Op op) {
    switch (op) {
      case Op::negate:
        return "Neg";
      case Op::absolute:
        return "Abs";
      case Op::exponential:
        return "Exp";
      case Op::square_root:
        return "Sqrt";
      case Op::tanh:
        return "Tanh";
      case Op::erf:
        return "Erf";
      case Op::sine:
        return "Sin";
      default:
        return "Cos";
    }
  }

  DType result_type(ValueId id) const { return value(id).island ? DType::f32 : float_; }

  bool is_activation(ValueId id) const {
    const Shape& shape = value(id).shape;
    return shape.size() == 3 && shape[0] == Symbol::batch && shape[2].is_constant();
  }

  // Sums of the residual stream grow beyond f16 in some models: they stay f32 from the first to the last layer. So does
  // what is computed from angles and norms, until a linear, a product of matrices or a state takes it.
  void arithmetic(const Node& node) {
    const ValueId out = node.outputs[0];
    const auto [a, b] = std::pair{node.inputs[0], node.inputs[1]};
    const std::string_view op = node.op == Op::add        ? "Add"
                                : node.op == Op::subtract ? "Sub"
                                : node.op == Op::multiply ? "Mul"
                                : node.op == Op::divide   ? "Div"
                                                          : "Pow";
    if (!is_float(out)) return made(out, w_.node(op, {full(a), full(b)}), value(out).dtype);
    const bool residual = node.op == Op::add && is_activation(a) && value(a).shape == value(b).shape;
    const DType type = residual ? DType::f32 : value(out).island ? DType::f32 : meeting(a, b);
    const bool same = value(a).shape == value(b).shape;
    const auto passes = [&](ValueId id) { return value(id).shape.size() <= 1; };  // broadcasts along rows as well
    if (same && (is_flat(a) || is_flat(b))) return made_flat(out, w_.node(op, {flat(a, type), flat(b, type)}), type);
    if (is_flat(a) && passes(b)) return made_flat(out, w_.node(op, {flat(a, type), full(b, type)}), type);
    if (is_flat(b) && passes(a)) return made_flat(out, w_.node(op, {full(a, type), flat(b, type)}), type);
    made(out, w_.node(op, {full(a, type), full(b, type)}), type);
  }

  // The type that both operands can be read in; constants take any.
  DType meeting(ValueId a, ValueId b) {
    const auto wide = [&](ValueId id) { return value(id).kind == ValueKind::result && forms(id).type == DType::f32; };
    return wide(a) || wide(b) ? DType::f32 : float_;
  }

  std::vector<std::string> common(const Node& node) {
    const auto [a, b] = std::pair{node.inputs[0], node.inputs[1]};
    if (!is_float(a)) return {full(a), full(b)};
    const DType type = meeting(a, b);
    return {full(a, type), full(b, type)};
  }

  void select(const Node& node) {
    const auto [condition, a, b] = std::tuple{node.inputs[0], node.inputs[1], node.inputs[2]};
    const DType type = is_float(a) ? meeting(a, b) : value(a).dtype;
    made(node.outputs[0], w_.node("Where", {full(condition), full(a, type), full(b, type)}), type);
  }

  void transpose(const Node& node) {
    std::vector<std::int64_t> axes;
    for (const int axis : std::get<graph::PermutationAttributes>(node.attributes).axes) axes.push_back(axis);
    made(node.outputs[0], w_.node("Transpose", {full(node.inputs[0])}, {{"perm", axes}}), forms(node.inputs[0]).type);
  }

  void concat(const Node& node) {
    const ValueId out = node.outputs[0];
    const bool wide = std::ranges::all_of(node.inputs, [&](ValueId id) { return forms(id).type == DType::f32; });
    const DType type = wide ? DType::f32 : float_;
    std::vector<std::string> parts;
    for (const ValueId id : node.inputs) parts.push_back(full(id, type));
    const int axis = std::get<graph::AxisAttributes>(node.attributes).axis;
    made(out, w_.node("Concat", parts, {{"axis", axis}}, wanted(out)), is_float(out) ? type : value(out).dtype);
  }

  static constexpr const char* kLogitsToKeep = "num_logits_to_keep";

  const Graph g_;
  const OnnxOptions& options_;
  onnx::GraphProto& out_;
  OnnxWeights& weights_;
  NodeWriter w_;
  DType float_;  // of what is no island
  std::vector<Forms> forms_;
  std::vector<const models::WeightRows*> rows_;
  std::map<ValueId, OnnxEncoding> encodings_;
  std::map<ValueId, OnnxStored> stored_;
  std::map<ValueId, std::string> dequantized_;
  std::map<ValueId, std::string> names_;
  std::map<ValueId, std::string> biases_;
  std::map<std::pair<std::string, DType>, std::string> casts_;
  std::string lengths_;
  std::string total_length_;
  std::vector<std::string> notes_;
};

bool has_gelu(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const Node& node) {
    const auto* activation = std::get_if<graph::ActivationAttributes>(&node.attributes);
    return activation != nullptr &&
           (activation->kind == graph::Activation::gelu_tanh || activation->kind == graph::Activation::gelu_erf);
  });
}

}  // namespace

std::vector<std::string> lower_to_onnx(const Graph& graph, const std::vector<const models::WeightRows*>& rows,
                                       const OnnxOptions& options, onnx::GraphProto& out, OnnxWeights& weights) {
  return Lowering(graph, rows, options, out, weights).run();
}

// Blocks in DequantizeLinear and whole numbers of 4 bits came with 21, Gelu with 20.
std::int64_t onnx_opset(const Graph& graph, const OnnxOptions& options) {
  const bool blocks = options.precision == OnnxPrecision::int8 || options.precision == OnnxPrecision::int4;
  if (blocks && options.ops == OnnxOps::standard) return 21;
  return has_gelu(graph) ? 20 : 18;
}

}  // namespace pastkv::targets
