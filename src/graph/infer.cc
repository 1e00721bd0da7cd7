// Shape and type inference: what a node's outputs are, from its inputs and attributes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "graph/op_traits.h"
#include "graph/verify.h"

namespace pastkv::graph {
namespace {

using tensor::DType;

const Dim kQuery = Symbol::query;
const Dim kPast = Symbol::past;
const Dim kTotal = kPast + kQuery;

// "2", "2 or 3", "1 or more".
std::string wanted_inputs(const OpTraits& op) {
  if (op.most_inputs == op.least_inputs) return fmt::format("{}", op.least_inputs);
  if (op.most_inputs == kAnyNumber) return fmt::format("{} or more", op.least_inputs);
  return fmt::format("{} or {}", op.least_inputs, op.most_inputs);
}

// A node with its operands at hand.
class Operands {
 public:
  // Checks what every operation has in common: number of inputs, their existence, the kind of the attributes.
  Operands(const Graph& graph, const Node& node) : graph_(graph), node_(node) {
    if (static_cast<std::size_t>(node.op) >= kOps) throw std::logic_error("unknown operation");
    const OpTraits& wanted = traits(node.op);
    if (node.inputs.size() < wanted.least_inputs || node.inputs.size() > wanted.most_inputs) {
      fail("{} inputs, takes {}", node.inputs.size(), wanted_inputs(wanted));
    }
    for (const ValueId id : node.inputs) {
      if (id < 0 || std::cmp_greater_equal(id, graph.values.size())) fail("input {} does not exist", id);
    }
    if (!wanted.accepts(node.attributes)) fail("attributes of another operation");
  }

  std::size_t count() const { return node_.inputs.size(); }
  const Value& value(std::size_t i) const { return graph_.value(node_.inputs[i]); }
  const Shape& shape(std::size_t i) const { return value(i).shape; }
  bool is_buffer(std::size_t i) const {
    const State* state = graph_.state_of(node_.inputs[i]);
    return state != nullptr && state->role == StateRole::buffer;
  }

  // The shape of input `i`, which must have `axes` axes.
  const Shape& shape_of(std::size_t i, std::size_t axes) const {
    if (shape(i).size() != axes) fail("input {} has {} axes, wants {}", described(i), shape(i).size(), axes);
    return shape(i);
  }

  const Shape& shape_with_last_axis(std::size_t i) const {
    if (shape(i).empty()) fail("input {} has no axis", described(i));
    return shape(i);
  }

  void expect(std::size_t i, const Shape& wanted) const {
    if (shape(i) != wanted) fail("input {}, wants {}", described(i), text(wanted));
  }

  template <typename Kind>
  const Kind& attributes() const {
    return std::get<Kind>(node_.attributes);
  }

  std::string described(std::size_t i) const { return fmt::format("{} {}", value(i).name, text(shape(i))); }

  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw std::logic_error(fmt::format("{}: {}", name(node_.op), fmt::format(format, std::forward<Args>(args)...)));
  }

 private:
  const Graph& graph_;
  const Node& node_;
};

// --- shapes: embedding, linear, norms ---

Shape gather_shape(const Operands& in) {
  const Shape& table = in.shape(0);
  if (table.empty()) in.fail("table {} has no axis", in.described(0));
  Shape out = in.shape(1);
  out.insert(out.end(), table.begin() + 1, table.end());
  return out;
}

Shape embedding_shape(const Operands& in) {
  const Shape& table = in.shape_of(1, 2);
  Shape out = in.shape_of(0, 2);
  out.push_back(table[1]);
  return out;
}

Shape linear_shape(const Operands& in) {
  Shape out = in.shape_with_last_axis(0);
  const Shape& weight = in.shape_of(1, 2);
  if (weight[1] != out.back()) in.fail("{} by weight {}", in.described(0), in.described(1));
  if (in.count() == 3) in.expect(2, {weight[0]});
  out.back() = weight[0];
  return out;
}

Shape norm_shape(const Operands& in) {
  const Shape& x = in.shape_with_last_axis(0);
  const auto& [epsilon, offset] = in.attributes<NormAttributes>();
  if (!(epsilon >= 0.0F) || !std::isfinite(epsilon)) in.fail("epsilon {}", epsilon);
  if (!std::isfinite(offset)) in.fail("weight offset {}", offset);
  for (std::size_t i = 1; i < in.count(); ++i) in.expect(i, {x.back()});
  return x;
}

// --- shapes: rope, states, attention ---

void check_table(const Operands& in, const RopeTable& table, std::int64_t rotary_dim) {
  if (std::cmp_not_equal(table.inverse_frequencies.size(), rotary_dim / 2)) {
    in.fail("{} frequencies for {} rotary channels", table.inverse_frequencies.size(), rotary_dim);
  }
  const bool finite = std::ranges::all_of(table.inverse_frequencies, [](float value) { return std::isfinite(value); });
  if (!finite || !std::isfinite(table.scale)) in.fail("a frequency or the scale is not finite");
}

void check_rope(const Operands& in, const Dim& head_dim) {
  const auto& [frequencies, rotary_dim, interleaved] = in.attributes<RopeAttributes>();
  if (!head_dim.is_constant() || rotary_dim < 2 || rotary_dim % 2 != 0 || rotary_dim > head_dim.constant()) {
    in.fail("{} rotary channels of {}", rotary_dim, head_dim.text());
  }
  check_table(in, frequencies.table, rotary_dim);
  if (frequencies.rule != RopeRule::fixed && frequencies.switch_length < 1) {
    in.fail("switch length {}", frequencies.switch_length);
  }
  if (frequencies.rule == RopeRule::two_tables) check_table(in, frequencies.long_table, rotary_dim);
  if (frequencies.rule == RopeRule::dynamic) {
    const auto above = [](double value, double least) { return value > least && std::isfinite(value); };
    if (!above(frequencies.base, 0.0) || !above(frequencies.factor, 0.0) || rotary_dim < 4) {
      in.fail("dynamic base {}, factor {}, {} rotary channels", frequencies.base, frequencies.factor, rotary_dim);
    }
  }
}

Shape rope_shape(const Operands& in) {
  const Shape& x = in.shape_of(0, 4);
  in.expect(1, {x[0], x[1]});
  check_rope(in, x[3]);
  return x;
}

const Shape& state_shape(const Operands& in) {
  if (in.value(0).kind != ValueKind::state) in.fail("{} is no state", in.described(0));
  return in.shape_of(0, 4);
}

Shape state_update_shape(const Operands& in) {
  const Shape& state = state_shape(in);
  in.expect(1, {state[0], kQuery, state[1], state[3]});
  return {state[0], state[1], kTotal, state[3]};
}

Shape state_read_shape(const Operands& in) {
  if (in.is_buffer(0)) return in.shape(0);
  const Shape& state = state_shape(in);
  return {state[0], state[1], kPast, state[3]};
}

Shape state_write_shape(const Operands& in) {
  if (in.is_buffer(0)) {
    in.expect(1, in.shape(0));
    return in.shape(0);
  }
  const Shape& state = state_shape(in);
  in.expect(1, {state[0], state[1], kTotal, state[3]});
  return in.shape(1);
}

Shape broadcast(const Operands& in, const Shape& a, const Shape& b);

Shape attention_shape(const Operands& in) {
  const Shape& q = in.shape_of(0, 4);       // [batch, query, heads, head_dim]
  const Shape& keys = in.shape_of(1, 4);    // [batch, kv_heads, past + query, head_dim]
  const Shape& values = in.shape_of(2, 4);  // [batch, kv_heads, past + query, value_dim]
  in.expect(0, {q[0], kQuery, q[2], q[3]});
  in.expect(1, {q[0], keys[1], kTotal, q[3]});
  in.expect(2, {q[0], keys[1], kTotal, values[3]});
  const Dim& heads = q[2];
  const Dim& kv_heads = keys[1];
  if (!heads.is_constant() || !kv_heads.is_constant() || kv_heads.constant() < 1 ||
      heads.constant() % kv_heads.constant() != 0) {
    in.fail("{} heads over {} KV heads", heads.text(), kv_heads.text());
  }
  const Shape scores = {q[0], heads, kQuery, kTotal};
  if (in.count() == 4 && broadcast(in, in.shape(3), scores) != scores) {
    in.fail("mask {} over scores {}", in.described(3), text(scores));
  }
  const auto& [scale, window, softcap] = in.attributes<AttentionAttributes>();
  if (!std::isfinite(scale)) in.fail("scale {}", scale);
  if (window < 0) in.fail("window {}", window);
  if (!(softcap >= 0.0F) || !std::isfinite(softcap)) in.fail("softcap {}", softcap);
  return {q[0], kQuery, heads, values[3]};
}

// --- shapes: elementwise and layout ---

Shape softcap_shape(const Operands& in) {
  const float cap = in.attributes<SoftcapAttributes>().cap;
  if (!(cap > 0.0F) || !std::isfinite(cap)) in.fail("cap {}", cap);
  return in.shape(0);
}

Shape scale_shape(const Operands& in) {
  const float factor = in.attributes<ScaleAttributes>().factor;
  if (!std::isfinite(factor)) in.fail("factor {}", factor);
  return in.shape(0);
}

Shape pick_rows_shape(const Operands& in) {
  Shape out = in.shape_of(0, 3);
  in.expect(0, {out[0], kQuery, out[2]});
  out[1] = Symbol::rows;
  return out;
}

// As numpy does it: shapes are aligned at their ends, and a size of 1 stretches.
Shape broadcast(const Operands& in, const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()), Dim(1));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Dim from_a = i < a.size() ? a[a.size() - 1 - i] : Dim(1);
    const Dim from_b = i < b.size() ? b[b.size() - 1 - i] : Dim(1);
    if (from_a != from_b && from_a != Dim(1) && from_b != Dim(1)) {
      in.fail("{} and {} do not broadcast", text(a), text(b));
    }
    out[out.size() - 1 - i] = from_a == Dim(1) ? from_b : from_a;
  }
  return out;
}

Shape broadcast_shape(const Operands& in) {
  Shape out = in.shape(0);
  for (std::size_t i = 1; i < in.count(); ++i) out = broadcast(in, out, in.shape(i));
  return out;
}

// The axis as an index; negative ones count from the end.
std::size_t axis_of(const Operands& in, int axis, const Shape& shape) {
  const int axes = static_cast<int>(shape.size());
  if (axis < -axes || axis >= axes) in.fail("axis {} of {}", axis, text(shape));
  return static_cast<std::size_t>(axis < 0 ? axis + axes : axis);
}

std::vector<Shape> split_shapes(const Operands& in) {
  const Shape& x = in.shape_with_last_axis(0);
  const auto& sizes = in.attributes<SplitAttributes>().sizes;
  std::vector<Shape> out;
  Dim total = 0;
  for (const std::int64_t size : sizes) {
    if (size < 1) in.fail("a part of size {}", size);
    total = total + size;
    out.push_back(x);
    out.back().back() = size;
  }
  if (total != x.back()) in.fail("parts add to {}, not {}", total.text(), x.back().text());
  return out;
}

Shape reshape_shape(const Operands& in) {
  const Shape& out = in.attributes<ShapeAttributes>().shape;
  if (!same_elements(in.shape(0), out)) in.fail("{} to {}", in.described(0), text(out));
  return out;
}

Shape expand_shape(const Operands& in) {
  const Shape& out = in.attributes<ShapeAttributes>().shape;
  if (broadcast(in, in.shape(0), out) != out) in.fail("{} to {}", in.described(0), text(out));
  return out;
}

Shape range_shape(const Operands& in) {
  const Shape& out = in.attributes<ShapeAttributes>().shape;
  if (out.size() != 1) in.fail("shape {}, wants one axis", text(out));
  return out;
}

Shape matmul_shape(const Operands& in) {
  Shape a = in.shape(0);
  Shape b = in.shape(1);
  if (a.size() < 2 || b.size() < 2 || a.back() != b[b.size() - 2]) {
    in.fail("{} by {}", in.described(0), in.described(1));
  }
  const Dim rows = a[a.size() - 2];
  const Dim columns = b.back();
  a.resize(a.size() - 2, Dim(1));
  b.resize(b.size() - 2, Dim(1));
  Shape out = broadcast(in, a, b);
  out.push_back(rows);
  out.push_back(columns);
  return out;
}

Shape transpose_shape(const Operands& in) {
  const Shape& x = in.shape(0);
  const auto& axes = in.attributes<PermutationAttributes>().axes;
  std::vector<int> sorted = axes;
  std::ranges::sort(sorted);
  bool permutation = sorted.size() == x.size();
  for (std::size_t i = 0; permutation && i < sorted.size(); ++i) permutation = std::cmp_equal(sorted[i], i);
  if (!permutation) in.fail("axes are no permutation of those of {}", in.described(0));
  Shape out;
  for (const int axis : axes) out.push_back(x[static_cast<std::size_t>(axis)]);
  return out;
}

// Whether low <= high whatever the sizes are, for what every call keeps to: sizes are not negative, rows <= query,
// past + query <= context. The difference must be a sum of such terms.
bool never_above(const Dim& low, const Dim& high) {
  const Dim difference = high - low;
  const std::int64_t context = difference.coefficient(Symbol::context);
  const std::int64_t past = difference.coefficient(Symbol::past) + context;
  std::int64_t query = difference.coefficient(Symbol::query) + context;
  if (const std::int64_t rows = difference.coefficient(Symbol::rows); rows < 0) query += rows;
  return difference.constant() >= 0 && difference.coefficient(Symbol::batch) >= 0 && context >= 0 && past >= 0 &&
         query >= 0;
}

Shape slice_shape(const Operands& in) {
  Shape out = in.shape(0);
  const auto& [axis, begin, end] = in.attributes<SliceAttributes>();
  Dim& size = out[axis_of(in, axis, out)];
  // Whether a buffer of fixed size holds so many tokens is seen when the graph runs.
  const bool is_seen_later = size.is_constant() && !end.is_constant();
  if (!never_above(0, begin) || !never_above(begin, end) || !(is_seen_later || never_above(end, size))) {
    in.fail("[{}, {}) of an axis of {}", begin.text(), end.text(), size.text());
  }
  size = end - begin;
  return out;
}

// The update may not be larger than x where both sizes are numbers; where `begin` puts it is seen when the graph runs.
Shape update_slice_shape(const Operands& in) {
  const Shape& x = in.shape(0);
  const Shape& update = in.shape_of(1, x.size());
  in.expect(2, {static_cast<std::int64_t>(x.size())});
  for (std::size_t axis = 0; axis < x.size(); ++axis) {
    const bool known = x[axis].is_constant() && update[axis].is_constant();
    if (known && update[axis].constant() > x[axis].constant()) in.fail("{} over {}", in.described(1), in.described(0));
  }
  return x;
}

Shape concat_shape(const Operands& in) {
  Shape out = in.shape(0);
  const std::size_t axis = axis_of(in, in.attributes<AxisAttributes>().axis, out);
  for (std::size_t i = 1; i < in.count(); ++i) {
    Shape next = in.shape_of(i, out.size());
    const Dim size = out[axis] + next[axis];
    out[axis] = next[axis] = size;
    if (next != out) in.fail("{} beside {}", in.described(i), in.described(0));
  }
  return out;
}

Shape reduce_shape(const Operands& in) {
  Shape out = in.shape(0);
  out[axis_of(in, in.attributes<AxisAttributes>().axis, out)] = 1;
  return out;
}

// --- types ---

void expect_float(const Operands& in, std::size_t i) {
  if (in.value(i).dtype != DType::f32) in.fail("{} is {}, wants f32", in.value(i).name, name(in.value(i).dtype));
}

void expect_integer(const Operands& in, std::size_t i) {
  const DType dtype = in.value(i).dtype;
  if (dtype != DType::i32 && dtype != DType::i64) in.fail("{} is {}, wants i32 or i64", in.value(i).name, name(dtype));
}

void expect_boolean(const Operands& in, std::size_t i) {
  const DType dtype = in.value(i).dtype;
  if (dtype != DType::boolean) in.fail("{} is {}, wants boolean", in.value(i).name, name(dtype));
}

void expect_same(const Operands& in, std::size_t a, std::size_t b) {
  if (in.value(a).dtype != in.value(b).dtype) {
    in.fail("{} is {}, {} is {}", in.value(a).name, name(in.value(a).dtype), in.value(b).name, name(in.value(b).dtype));
  }
}

DType cast_dtype(const Operands& in) {
  const DType to = in.attributes<CastAttributes>().dtype;
  for (const DType known : {DType::f32, DType::f16, DType::bf16, DType::i32, DType::i64, DType::boolean}) {
    if (to == known) return to;
  }
  in.fail("no cast to {}", name(to));
}

}  // namespace

std::vector<Shape> infer_shapes(const Graph& graph, const Node& node) {
  const Operands in(graph, node);
  switch (node.op) {
    case Op::embedding:
      return {embedding_shape(in)};
    case Op::linear:
      return {linear_shape(in)};
    case Op::rms_norm:
    case Op::layer_norm:
      return {norm_shape(in)};
    case Op::rope:
      return {rope_shape(in)};
    case Op::state_update:
      return {state_update_shape(in)};
    case Op::attention:
      return {attention_shape(in)};
    case Op::softcap:
      return {softcap_shape(in)};
    case Op::pick_rows:
      return {pick_rows_shape(in)};
    case Op::scale:
      return {scale_shape(in)};
    case Op::split:
      return split_shapes(in);
    case Op::reshape:
      return {reshape_shape(in)};
    case Op::gather:
      return {gather_shape(in)};
    case Op::matmul:
      return {matmul_shape(in)};
    case Op::transpose:
      return {transpose_shape(in)};
    case Op::slice:
      return {slice_shape(in)};
    case Op::concat:
      return {concat_shape(in)};
    case Op::expand:
      return {expand_shape(in)};
    case Op::range:
      return {range_shape(in)};
    case Op::update_slice:
      return {update_slice_shape(in)};
    case Op::state_read:
      return {state_read_shape(in)};
    case Op::state_write:
      return {state_write_shape(in)};
    case Op::reduce_sum:
    case Op::reduce_mean:
    case Op::reduce_max:
      return {reduce_shape(in)};
    case Op::add:
    case Op::multiply:
    case Op::subtract:
    case Op::divide:
    case Op::power:
    case Op::less:
    case Op::less_equal:
    case Op::logical_and:
    case Op::select:
      return {broadcast_shape(in)};
    case Op::cumulative_sum:
      axis_of(in, in.attributes<AxisAttributes>().axis, in.shape(0));
      return {in.shape(0)};
    case Op::softmax:
      return {in.shape_with_last_axis(0)};
    case Op::activation:
    case Op::negate:
    case Op::absolute:
    case Op::exponential:
    case Op::square_root:
    case Op::tanh:
    case Op::erf:
    case Op::sine:
    case Op::cosine:
    case Op::cast:
      return {in.shape(0)};
  }
  in.fail("no shape rule");
}

DType infer_dtype(const Graph& graph, const Node& node) {
  const Operands in(graph, node);
  switch (node.op) {
    case Op::embedding:
      expect_integer(in, 0);
      expect_float(in, 1);
      return DType::f32;
    case Op::rope:
      expect_float(in, 0);
      expect_integer(in, 1);
      return DType::f32;
    case Op::attention:
      for (std::size_t i = 0; i < 3; ++i) expect_float(in, i);
      if (in.count() == 4 && in.value(3).dtype != DType::boolean) expect_float(in, 3);
      return DType::f32;
    case Op::gather:
      expect_integer(in, 1);
      return in.value(0).dtype;
    case Op::update_slice:
      expect_same(in, 0, 1);
      expect_integer(in, 2);
      return in.value(0).dtype;
    case Op::range:
      return DType::i32;
    case Op::cast:
      return cast_dtype(in);
    case Op::less:
    case Op::less_equal:
      expect_same(in, 0, 1);
      return DType::boolean;
    case Op::logical_and:
      expect_boolean(in, 0);
      expect_boolean(in, 1);
      return DType::boolean;
    case Op::select:
      expect_boolean(in, 0);
      expect_same(in, 1, 2);
      return in.value(1).dtype;
    case Op::split:
    case Op::reshape:
    case Op::transpose:
    case Op::slice:
    case Op::expand:
    case Op::pick_rows:
      return in.value(0).dtype;
    case Op::cumulative_sum:
      if (in.value(0).dtype == DType::boolean) in.fail("{} is boolean, wants numbers", in.value(0).name);
      return in.value(0).dtype;
    case Op::add:
    case Op::multiply:
    case Op::subtract:
    case Op::concat:
      for (std::size_t i = 1; i < in.count(); ++i) expect_same(in, 0, i);
      return in.value(0).dtype;
    default:  // the rest computes in floating point
      for (std::size_t i = 0; i < in.count(); ++i) expect_float(in, i);
      return DType::f32;
  }
}

}  // namespace pastkv::graph
