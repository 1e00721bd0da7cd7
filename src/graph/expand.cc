#include "graph/expand.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <numbers>
#include <stdexcept>
#include <utility>

#include "graph/builder.h"
#include "graph/verify.h"

namespace pastkv::graph {
namespace {

using tensor::DType;
using Operands = std::vector<ValueId>;

const Dim kQuery = Symbol::query;
const Dim kPast = Symbol::past;
const Dim kTotal = kPast + kQuery;

// Cosine and sine of every angle, [batch, query, 1, pairs].
struct Rotation {
  ValueId cosine;
  ValueId sine;
};

// Builds the primitive graph node by node beside the composite one.
class Expander {
 public:
  Expander(const Graph& source, const ExpandOptions& options)
      : source_(source), options_(options), b_(source.name), map_(source.values.size(), -1) {}

  Graph run() {
    copy_values();
    for (const Node& node : source_.nodes) {
      Operands in;
      for (const ValueId id : node.inputs) in.push_back(map_[static_cast<std::size_t>(id)]);
      const Operands made = expand(node, in);
      for (std::size_t i = 0; i < made.size(); ++i) map_[static_cast<std::size_t>(node.outputs[i])] = made[i];
    }
    for (const ValueId id : source_.outputs) {
      b_.output(map_[static_cast<std::size_t>(id)], source_.value(id).name);
    }
    return b_.finish();
  }

 private:
  // --- writing ---

  void copy_values() {
    for (const ValueId id : source_.inputs) {
      const Value& value = source_.value(id);
      map_[static_cast<std::size_t>(id)] = b_.input(value.name, value.dtype, value.shape);
    }
    for (std::size_t i = 0; i < source_.values.size(); ++i) {
      const Value& value = source_.values[i];
      if (value.kind == ValueKind::weight) map_[i] = b_.weight(value.name, value.shape);
      if (value.kind == ValueKind::constant) map_[i] = b_.constant(value.name, value.shape, value.data, value.dtype);
    }
    for (const State& state : source_.states) {
      const Value& value = source_.value(state.value);
      map_[static_cast<std::size_t>(state.value)] =
          b_.state(value.name, state.role, state.layer, value.shape[1].constant(), value.shape[3].constant(),
                   state.window, value.shape[0]);
    }
  }

  const Shape& shape(ValueId id) const { return b_.graph().value(id).shape; }

  // Operands stand in braces: what makes them is then called from left to right, by every compiler.
  ValueId emit(Op op, Operands in, Attributes attributes = {}) {
    return b_.emit(op, std::move(in), std::move(attributes)).front();
  }
  ValueId add(Operands in) { return emit(Op::add, std::move(in)); }
  ValueId subtract(Operands in) { return emit(Op::subtract, std::move(in)); }
  ValueId multiply(Operands in) { return emit(Op::multiply, std::move(in)); }
  ValueId divide(Operands in) { return emit(Op::divide, std::move(in)); }
  ValueId reshape(ValueId x, Shape to) {
    return shape(x) == to ? x : emit(Op::reshape, {x}, ShapeAttributes{.shape = std::move(to)});
  }
  ValueId transpose(ValueId x, std::vector<int> axes) {
    return emit(Op::transpose, {x}, PermutationAttributes{.axes = std::move(axes)});
  }
  ValueId slice(ValueId x, int axis, Dim begin, Dim end) {
    return emit(Op::slice, {x}, SliceAttributes{.axis = axis, .begin = std::move(begin), .end = std::move(end)});
  }
  ValueId slice_last(ValueId x, Dim begin, Dim end) {
    return slice(x, static_cast<int>(shape(x).size()) - 1, std::move(begin), std::move(end));
  }
  ValueId reduce_last(Op op, ValueId x) { return emit(op, {x}, AxisAttributes{.axis = -1}); }
  ValueId concat(Operands parts, int axis) { return emit(Op::concat, std::move(parts), AxisAttributes{.axis = axis}); }
  ValueId cast(ValueId x, DType to) { return emit(Op::cast, {x}, CastAttributes{.dtype = to}); }

  // A number as a constant without axes; the same number is one value.
  ValueId scalar(double number, DType dtype = DType::f32) {
    const auto [known, is_new] = scalars_.try_emplace({number, dtype}, -1);
    if (is_new) known->second = constant({}, {number}, dtype);
    return known->second;
  }
  ValueId constant(Shape of, std::vector<double> numbers, DType dtype = DType::f32) {
    std::string name;
    do {
      name = fmt::format("constant_{}", constants_++);
    } while (source_.find(name) >= 0);
    return b_.constant(name, std::move(of), std::move(numbers), dtype);
  }

  ValueId island(ValueId x) {
    b_.set_island(x);
    return x;
  }

  // --- the expansions ---

  Operands expand(const Node& node, const Operands& in) {
    const Attributes& with = node.attributes;
    if (options_.keep.contains(node.op)) return copied(node, in);
    switch (node.op) {
      case Op::embedding:
        return {emit(Op::gather, {in[1], in[0]})};
      case Op::linear:
        return {linear(in)};
      case Op::rms_norm:
        return {gained(normalized(in[0], std::get<NormAttributes>(with)), in, std::get<NormAttributes>(with))};
      case Op::layer_norm:
        return {gained(normalized(centred(in[0]), std::get<NormAttributes>(with)), in, std::get<NormAttributes>(with))};
      case Op::rope:
        return {rope(in[0], in[1], std::get<RopeAttributes>(with))};
      case Op::state_update:
        return {state_update(in[0], in[1])};
      case Op::attention:
        return {attention(in, std::get<AttentionAttributes>(with))};
      case Op::activation:
        return {activation(in[0], std::get<ActivationAttributes>(with).kind)};
      case Op::softcap:
        return {softcap(in[0], std::get<SoftcapAttributes>(with).cap)};
      case Op::pick_rows:
        return {slice(in[0], 1, kQuery - Symbol::rows, kQuery)};
      case Op::scale:
        return {multiply({in[0], scalar(std::get<ScaleAttributes>(with).factor)})};
      case Op::split:
        return split(in[0], std::get<SplitAttributes>(with).sizes);
      default:  // already primitive
        return copied(node, in);
    }
  }

  Operands copied(const Node& node, const Operands& in) {
    Operands made = b_.emit(node.op, in, node.attributes, static_cast<int>(node.outputs.size()));
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (source_.value(node.outputs[i]).island) b_.set_island(made[i]);
    }
    return made;
  }

  // x W^T + bias
  ValueId linear(const Operands& in) {
    ValueId x = in[0];
    const ValueId weight = transpose(in[1], {1, 0});
    if (shape(x).size() == 1) {  // a matrix product wants two axes
      x = emit(Op::matmul, {reshape(x, {1, shape(x)[0]}), weight});
      x = reshape(x, {shape(x)[1]});
    } else {
      x = emit(Op::matmul, {x, weight});
    }
    return in.size() == 3 ? add({x, in[2]}) : x;
  }

  // x / sqrt(mean(x^2) + epsilon) along the last axis. In f16 squares overflow from 256 on, so everything is divided by
  // s = max|x| + sqrt(epsilon) first: (x / s) / sqrt(mean((x / s)^2) + (sqrt(epsilon) / s)^2) is the same number.
  ValueId normalized(ValueId x, const NormAttributes& norm) {
    const ValueId root = scalar(std::sqrt(static_cast<double>(norm.epsilon)));
    const ValueId s = add({reduce_last(Op::reduce_max, emit(Op::absolute, {x})), root});
    const ValueId scaled = divide({x, s});
    const ValueId mean_square = reduce_last(Op::reduce_mean, multiply({scaled, scaled}));
    const ValueId scaled_root = divide({root, s});
    const ValueId rms = emit(Op::square_root, {add({mean_square, multiply({scaled_root, scaled_root})})});
    return divide({scaled, rms});
  }

  ValueId centred(ValueId x) { return subtract({x, reduce_last(Op::reduce_mean, x)}); }

  // x * (weight + offset) + bias, weight and bias being inputs 1 and 2 of the norm.
  ValueId gained(ValueId x, const Operands& in, const NormAttributes& norm) {
    const ValueId gain = norm.weight_offset == 0.0F ? in[1] : add({in[1], scalar(norm.weight_offset)});
    x = multiply({x, gain});
    return in.size() == 3 ? add({x, in[2]}) : x;
  }

  // (first, second) -> (first cos - second sin, second cos + first sin) for each pair; other channels pass.
  ValueId rope(ValueId x, ValueId positions, const RopeAttributes& rope) {
    const auto [cosine, sine] = rotation(positions, rope);
    const std::int64_t pairs = rope.rotary_dim / 2;
    const std::int64_t head_dim = shape(x)[3].constant();
    const ValueId turned = rope.rotary_dim == head_dim ? x : slice_last(x, 0, rope.rotary_dim);

    ValueId first = -1;
    ValueId second = -1;
    Shape column = shape(x);  // [batch, query, heads, pairs]
    column[3] = pairs;
    if (rope.interleaved) {
      Shape paired = column;
      paired.push_back(2);
      const ValueId neighbours = reshape(turned, paired);
      first = reshape(slice_last(neighbours, 0, 1), column);
      second = reshape(slice_last(neighbours, 1, 2), column);
    } else {
      first = slice_last(turned, 0, pairs);
      second = slice_last(turned, pairs, rope.rotary_dim);
    }

    const ValueId new_first = subtract({multiply({first, cosine}), multiply({second, sine})});
    const ValueId new_second = add({multiply({second, cosine}), multiply({first, sine})});
    ValueId y = -1;
    if (rope.interleaved) {
      column.push_back(1);
      y = concat({reshape(new_first, column), reshape(new_second, column)}, -1);
      column.pop_back();
      column[3] = rope.rotary_dim;
      y = reshape(y, column);
    } else {
      y = concat({new_first, new_second}, -1);
    }
    return rope.rotary_dim == head_dim ? y : concat({y, slice_last(x, rope.rotary_dim, head_dim)}, -1);
  }

  // Queries and keys of every layer with the same positions and frequencies share their angles.
  Rotation rotation(ValueId positions, const RopeAttributes& rope) {
    for (const auto& [known_positions, known_rope, known] : rotations_) {
      if (known_positions == positions && known_rope == rope.frequencies) return known;
    }
    const auto [inverse_frequencies, scale] = table(rope.frequencies);
    const ValueId column = reshape(island(cast(positions, DType::f32)), {shape(positions)[0], kQuery, 1, 1});
    const ValueId angles = island(multiply({island(column), inverse_frequencies}));  // [batch, query, 1, pairs]
    Rotation made{.cosine = emit(Op::cosine, {angles}), .sine = emit(Op::sine, {angles})};
    if (scale >= 0) made = {.cosine = multiply({made.cosine, scale}), .sine = multiply({made.sine, scale})};
    rotations_.push_back({positions, rope.frequencies, made});
    return made;
  }

  // Inverse frequencies [pairs], and the scale or -1 when it is 1, for the total length of this call.
  std::pair<ValueId, ValueId> table(const RopeFrequencies& frequencies) {
    const auto frequencies_of = [this](const RopeTable& of) {
      const auto& numbers = of.inverse_frequencies;
      return constant({static_cast<std::int64_t>(numbers.size())}, {numbers.begin(), numbers.end()});
    };
    const ValueId short_frequencies = frequencies_of(frequencies.table);
    const float short_scale = frequencies.table.scale;
    const ValueId scale = short_scale == 1.0F ? -1 : scalar(short_scale);
    if (frequencies.rule == RopeRule::fixed) return {short_frequencies, scale};

    const ValueId numbers = emit(Op::range, {}, ShapeAttributes{.shape = {kTotal + 1}});
    const ValueId total = slice(numbers, 0, kTotal, kTotal + 1);  // [1]
    const ValueId is_short =
        emit(Op::less_equal, {total, scalar(static_cast<double>(frequencies.switch_length), DType::i32)});
    if (frequencies.rule == RopeRule::dynamic) {
      return {island(multiply({short_frequencies, shrinkage(frequencies, total, is_short)})), scale};
    }
    const ValueId chosen =
        island(emit(Op::select, {is_short, short_frequencies, frequencies_of(frequencies.long_table)}));
    const float long_scale = frequencies.long_table.scale;
    if (short_scale == long_scale) return {chosen, scale};
    return {chosen, emit(Op::select, {is_short, scalar(short_scale), scalar(long_scale)})};
  }

  // By what dynamic NTK multiplies inverse frequency i. The base grows by g^(dim / (dim - 2)), where
  // g = factor * total / switch_length - (factor - 1), so base^(-2i / dim) shrinks by g^(-2i / (dim - 2)).
  ValueId shrinkage(const RopeFrequencies& frequencies, ValueId total, ValueId is_short) {
    const auto pairs = frequencies.table.inverse_frequencies.size();
    std::vector<double> exponents(pairs);
    for (std::size_t i = 0; i < pairs; ++i) exponents[i] = -static_cast<double>(i) / static_cast<double>(pairs - 1);
    const double slope = frequencies.factor / static_cast<double>(frequencies.switch_length);
    const ValueId grown = island(subtract(
        {island(multiply({island(cast(total, DType::f32)), scalar(slope)})), scalar(frequencies.factor - 1.0)}));
    const ValueId growth = island(emit(Op::select, {is_short, scalar(1.0), grown}));
    return island(emit(Op::power, {growth, constant({static_cast<std::int64_t>(pairs)}, std::move(exponents))}));
  }

  // What the state holds, then the rows of this call; written back and given on.
  ValueId state_update(ValueId state, ValueId x) {
    const ValueId past = emit(Op::state_read, {state});
    return emit(Op::state_write, {state, concat({past, transpose(x, {0, 2, 1, 3})}, 2)});
  }

  // q [batch, query, heads, head_dim], keys and values [batch, kv_heads, past + query, head_dim], mask?
  ValueId attention(const Operands& in, const AttentionAttributes& attributes) {
    ValueId q = in[0];
    const ValueId keys = in[1];
    const ValueId values = in[2];
    const ValueId mask = in.size() == 4 ? in[3] : -1;
    const std::int64_t heads = shape(q)[2].constant();
    const std::int64_t kv_heads = shape(keys)[1].constant();
    const std::int64_t head_dim = shape(q)[3].constant();
    const std::int64_t value_dim = shape(values)[3].constant();
    const Dim batch = shape(q)[0];
    const Dim group_rows = kQuery * (heads / kv_heads);  // of the query heads that share a KV head, one below the other

    q = multiply({transpose(q, {0, 2, 1, 3}), scalar(attributes.scale)});
    q = reshape(q, {batch, kv_heads, group_rows, head_dim});
    ValueId scores = emit(Op::matmul, {q, transpose(keys, {0, 1, 3, 2})});
    scores = reshape(scores, {batch, heads, kQuery, kTotal});
    if (attributes.softcap != 0.0F) scores = softcap(scores, attributes.softcap);
    const bool boolean = mask >= 0 && b_.graph().value(mask).dtype == DType::boolean;
    if (mask >= 0 && !boolean) scores = add({scores, finite(mask)});
    const ValueId seen = visible(attributes.window, boolean ? mask : -1);
    scores = emit(Op::select, {seen, scores, scalar(static_cast<double>(kMaskedScore))});
    scores = reshape(emit(Op::softmax, {scores}), {batch, kv_heads, group_rows, kTotal});
    const ValueId mixed = reshape(emit(Op::matmul, {scores, values}), {batch, heads, kQuery, value_dim});
    return transpose(mixed, {0, 2, 1, 3});
  }

  // [query, past + query]: the query at i sees the key at j when j <= i, and i - window < j where there is a window.
  ValueId visible(std::int64_t window) {
    const auto [known, is_new] = masks_.try_emplace(window, -1);
    if (!is_new) return known->second;
    if (window == 0) {
      key_position_ = emit(Op::range, {}, ShapeAttributes{.shape = {kTotal}});
      query_position_ = reshape(slice(key_position_, 0, kPast, kTotal), {kQuery, 1});
      return known->second = emit(Op::less_equal, {key_position_, query_position_});
    }
    const ValueId causal = visible(0);
    const ValueId before = subtract({query_position_, scalar(static_cast<double>(window), DType::i32)});
    return known->second = emit(Op::logical_and, {causal, emit(Op::less, {before, key_position_})});
  }

  // The same, where the caller's boolean mask allows it.
  ValueId visible(std::int64_t window, ValueId mask) {
    if (mask < 0) return visible(window);
    const auto [known, is_new] = masked_.try_emplace({window, mask}, -1);
    if (is_new) known->second = emit(Op::logical_and, {visible(window), mask});
    return known->second;
  }

  // A caller's mask without infinities.
  ValueId finite(ValueId mask) {
    const auto [known, is_new] = finite_masks_.try_emplace(mask, -1);
    if (is_new) {
      const ValueId lowest = scalar(static_cast<double>(kLowestMask));
      known->second = emit(Op::select, {emit(Op::less, {mask, lowest}), lowest, mask});
    }
    return known->second;
  }

  ValueId activation(ValueId x, Activation kind) {
    const ValueId one = scalar(1.0);
    switch (kind) {
      case Activation::silu:
        return divide({x, add({one, emit(Op::exponential, {emit(Op::negate, {x})})})});
      case Activation::relu: {
        const ValueId zero = scalar(0.0);
        return emit(Op::select, {emit(Op::less, {zero, x}), x, zero});
      }
      case Activation::gelu_erf: {
        const ValueId inner = emit(Op::erf, {multiply({x, scalar(1.0 / std::numbers::sqrt2)})});
        return multiply({multiply({x, scalar(0.5)}), add({one, inner})});
      }
      case Activation::gelu_tanh: {  // tanh(sqrt(2 / pi) * (x + 0.044715 x^3))
        const ValueId cubic = add({one, multiply({multiply({x, x}), scalar(0.044715)})});
        const ValueId inner = multiply({multiply({x, scalar(std::sqrt(2.0 / std::numbers::pi))}), cubic});
        return multiply({multiply({x, scalar(0.5)}), add({one, emit(Op::tanh, {inner})})});
      }
    }
    throw std::logic_error("unknown activation");
  }

  ValueId softcap(ValueId x, float cap) {
    const ValueId limit = scalar(cap);
    return multiply({emit(Op::tanh, {divide({x, limit})}), limit});
  }

  Operands split(ValueId x, const std::vector<std::int64_t>& sizes) {
    Operands parts;
    std::int64_t begin = 0;
    for (const std::int64_t size : sizes) {
      parts.push_back(slice_last(x, begin, begin + size));
      begin += size;
    }
    return parts;
  }

  struct KnownRotation {
    ValueId positions;
    RopeFrequencies frequencies;
    Rotation rotation;
  };

  const Graph& source_;
  const ExpandOptions& options_;
  Builder b_;
  std::vector<ValueId> map_;  // from a value of the source to its value in the new graph
  int constants_ = 0;
  std::map<std::pair<double, DType>, ValueId> scalars_;
  std::map<std::int64_t, ValueId> masks_;                       // by window
  std::map<std::pair<std::int64_t, ValueId>, ValueId> masked_;  // by window and the caller's mask
  std::map<ValueId, ValueId> finite_masks_;                     // by the caller's mask
  ValueId key_position_ = -1;                                   // [past + query], made with the first mask
  ValueId query_position_ = -1;                                 // [query, 1]
  std::vector<KnownRotation> rotations_;
};

}  // namespace

Graph expand(const Graph& graph, const ExpandOptions& options) {
  const std::vector<std::string> found = faults(graph);
  if (!found.empty()) throw std::logic_error(fmt::format("{}", fmt::join(found, "\n")));
  return Expander(graph, options).run();
}

}  // namespace pastkv::graph
