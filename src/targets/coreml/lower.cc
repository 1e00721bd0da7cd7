#include "targets/coreml/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace pastkv::targets::coreml {

using graph::Activation;
using graph::Node;
using graph::Op;
using graph::ValueId;
using graph::ValueKind;
using tensor::DType;

std::set<Op> kept_operations() {
  return {Op::linear,  Op::state_update, Op::attention, Op::activation,
          Op::softcap, Op::split,        Op::scale,     Op::pick_rows};
}

Lowering::Lowering(const graph::Graph& graph, const WeightOffsets& offsets, proto::DataType weight_type,
                   CoremlPrecision precision, FunctionWriter& writer)
    : graph_(graph), w_(writer), offsets_(offsets), weight_type_(weight_type), precision_(precision) {}

void Lowering::lower(std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) lower(graph_.nodes[i]);
}

// --- types ---

proto::DataType Lowering::type_of(ValueId id) const {
  const graph::Value& of = value(id);
  if (of.dtype == DType::boolean) return proto::BOOL;
  if (of.dtype == DType::i32 || of.dtype == DType::i64) return proto::INT32;
  if (of.kind == ValueKind::weight) return weight_type_;
  return precision_ == CoremlPrecision::fp16 && !of.island ? proto::FLOAT16 : proto::FLOAT32;
}

// Integers stay integers. Floats are computed as they are held, and in fp32 where an island is taken or made.
proto::DataType Lowering::computed_in(const Node& node) const {
  bool is_island = value(node.outputs[0]).island;
  for (const ValueId id : node.inputs) {
    if (value(id).dtype == DType::i32 || value(id).dtype == DType::i64) return proto::INT32;
    is_island = is_island || value(id).island;
  }
  return precision_ == CoremlPrecision::fp16 && !is_island ? proto::FLOAT16 : proto::FLOAT32;
}

std::vector<std::int64_t> Lowering::shape_of(ValueId id) const {
  std::vector<std::int64_t> out;
  for (const graph::Dim& dim : value(id).shape) out.push_back(size(dim));
  return out;
}

// --- values ---

Tensor Lowering::get(ValueId id) {
  return get(id, type_of(id));
}

Tensor Lowering::get(ValueId id, proto::DataType dtype) {
  const graph::Value& of = value(id);
  if (of.kind == ValueKind::constant) {
    if (dtype == proto::INT32) {
      std::vector<std::int64_t> numbers;
      for (const double number : of.data) numbers.push_back(static_cast<std::int64_t>(number));
      return of.shape.empty() ? w_.integer(numbers.at(0)) : w_.integers(numbers);
    }
    return w_.numbers(of.data, shape_of(id), dtype);
  }
  if (of.kind == ValueKind::weight) {
    const Tensor stored = w_.weight(of.name, {.dtype = weight_type_, .shape = shape_of(id)}, offsets_.at(of.name));
    return cast(stored, dtype);
  }
  return cast(held_.at(id), dtype);
}

Tensor Lowering::cast(const Tensor& x, proto::DataType dtype) {
  if (x.type.dtype == dtype) return x;
  const auto known = casts_.find({x.name, dtype});
  if (known != casts_.end()) return known->second;
  const auto name_of = [](proto::DataType type) {
    switch (type) {
      case proto::FLOAT16:
        return "fp16";
      case proto::FLOAT32:
        return "fp32";
      case proto::INT32:
        return "int32";
      case proto::BOOL:
        return "bool";
      default:
        throw std::logic_error("no cast to this type");
    }
  };
  Tensor made = w_.op("cast", {{"x", x}, {"dtype", w_.text(name_of(dtype))}}, {.dtype = dtype, .shape = x.type.shape});
  casts_.emplace(std::pair(x.name, dtype), made);
  return made;
}

void Lowering::set(ValueId id, const Tensor& x) {
  held_.insert_or_assign(id, cast(x, type_of(id)));
}

// --- operations ---

Tensor Lowering::made(const Node& node, const char* type, const std::vector<Operand>& operands, proto::DataType dtype) {
  return w_.op(type, operands, {.dtype = dtype, .shape = shape_of(node.outputs[0])});
}

void Lowering::lower(const Node& node) {
  switch (node.op) {
    case Op::linear:
    case Op::state_update:
    case Op::attention:
    case Op::pick_rows:
      return lower_special(node);
    case Op::gather:
      return lower_gather(node);
    case Op::add:
      return lower_binary(node, "add");
    case Op::subtract:
      return lower_binary(node, "sub");
    case Op::multiply:
    case Op::scale:
      return lower_binary(node, "mul");
    case Op::divide:
      return lower_binary(node, "real_div");
    case Op::power:
      return lower_binary(node, "pow");
    case Op::less:
      return lower_binary(node, "less");
    case Op::less_equal:
      return lower_binary(node, "less_equal");
    case Op::logical_and:
      return lower_binary(node, "logical_and");
    case Op::absolute:
      return lower_unary(node, "abs");
    case Op::exponential:
      return lower_unary(node, "exp");
    case Op::square_root:
      return lower_unary(node, "sqrt");
    case Op::tanh:
      return lower_unary(node, "tanh");
    case Op::erf:
      return lower_unary(node, "erf");
    case Op::sine:
      return lower_unary(node, "sin");
    case Op::cosine:
      return lower_unary(node, "cos");
    case Op::activation:
    case Op::softcap:
      return lower_activation(node);
    case Op::reduce_sum:
      return lower_reduce(node, "reduce_sum");
    case Op::reduce_mean:
      return lower_reduce(node, "reduce_mean");
    case Op::reduce_max:
      return lower_reduce(node, "reduce_max");
    case Op::slice:
      return lower_slice(node);
    default:
      return lower_layout(node);
  }
}

void Lowering::lower_gather(const Node& node) {
  const Tensor table = get(node.inputs[0], matrix_type());
  set(node.outputs[0], made(node, "gather",
                            {{"x", table},
                             {"indices", get(node.inputs[1], proto::INT32)},
                             {"axis", w_.integer(0)},
                             {"batch_dims", w_.integer(0)},
                             {"validate_indices", w_.boolean(false)}},
                            table.type.dtype));
}

void Lowering::lower_binary(const Node& node, const char* type) {
  const proto::DataType in = node.op == Op::logical_and ? proto::BOOL : computed_in(node);
  const Tensor x = get(node.inputs[0], in);
  const Tensor y = node.op == Op::scale ? w_.number(std::get<graph::ScaleAttributes>(node.attributes).factor, in)
                                        : get(node.inputs[1], in);
  const bool is_boolean = value(node.outputs[0]).dtype == DType::boolean;
  set(node.outputs[0], made(node, type, {{"x", x}, {"y", y}}, is_boolean ? proto::BOOL : in));
}

void Lowering::lower_unary(const Node& node, const char* type) {
  const proto::DataType in = computed_in(node);
  set(node.outputs[0], made(node, type, {{"x", get(node.inputs[0], in)}}, in));
}

void Lowering::lower_activation(const Node& node) {
  const proto::DataType in = computed_in(node);
  const Tensor x = get(node.inputs[0], in);
  if (node.op == Op::softcap) {
    const Tensor cap = w_.number(std::get<graph::SoftcapAttributes>(node.attributes).cap, in);
    const Tensor turned = made(node, "tanh", {{"x", made(node, "real_div", {{"x", x}, {"y", cap}}, in)}}, in);
    return set(node.outputs[0], made(node, "mul", {{"x", turned}, {"y", cap}}, in));
  }
  const auto gelu = [&](const char* mode) { return made(node, "gelu", {{"x", x}, {"mode", w_.text(mode)}}, in); };
  switch (std::get<graph::ActivationAttributes>(node.attributes).kind) {
    case Activation::silu:
      return set(node.outputs[0], made(node, "silu", {{"x", x}}, in));
    case Activation::relu:
      return set(node.outputs[0], made(node, "relu", {{"x", x}}, in));
    case Activation::gelu_erf:
      return set(node.outputs[0], gelu("EXACT"));
    case Activation::gelu_tanh:
      return set(node.outputs[0], gelu("TANH_APPROXIMATION"));
  }
}

void Lowering::lower_reduce(const Node& node, const char* type) {
  const proto::DataType in = computed_in(node);
  const std::int64_t axis = std::get<graph::AxisAttributes>(node.attributes).axis;
  set(node.outputs[0],
      made(node, type, {{"x", get(node.inputs[0], in)}, {"axes", w_.integers({axis})}, {"keep_dims", w_.boolean(true)}},
           in));
}

Tensor Lowering::reshape(const Tensor& x, const graph::Shape& shape) {
  std::vector<std::int64_t> sizes;
  for (const graph::Dim& dim : shape) sizes.push_back(size(dim));
  if (std::ranges::count(sizes, kAnySize) > 1) throw std::logic_error("a reshape to two sizes of run time");
  return w_.op("reshape", {{"x", x}, {"shape", w_.integers(sizes)}}, {.dtype = x.type.dtype, .shape = sizes});
}

void Lowering::lower_slice(const Node& node) {
  const auto& [axis, begin, end] = std::get<graph::SliceAttributes>(node.attributes);
  if (ranges_.contains(node.inputs[0]) && end == begin + 1) {  // how a graph says a size as a number
    return set(node.outputs[0], run_time_integer(begin));
  }
  const Tensor x = get(node.inputs[0]);
  const std::size_t rank = x.type.shape.size();
  const auto along = static_cast<std::size_t>(axis < 0 ? axis + static_cast<int>(rank) : axis);
  const auto bound = [&](const graph::Dim& dim) {
    if (size(dim) == kAnySize) throw std::logic_error("a slice by sizes of run time");
    std::vector<std::int64_t> numbers(rank, 0);
    numbers[along] = size(dim);
    return w_.integers(numbers);
  };
  std::vector<bool> whole(rank, true);
  whole[along] = false;
  set(node.outputs[0], made(node, "slice_by_index",
                            {{"x", x},
                             {"begin", bound(begin)},
                             {"end", bound(end)},
                             {"begin_mask", w_.booleans(whole)},
                             {"end_mask", w_.booleans(whole)}},
                            x.type.dtype));
}

// What moves numbers, and the rest.
void Lowering::lower_layout(const Node& node) {
  const ValueId out = node.outputs[0];
  switch (node.op) {
    case Op::reshape:
      return set(out, reshape(get(node.inputs[0]), std::get<graph::ShapeAttributes>(node.attributes).shape));
    case Op::transpose: {
      const auto& axes = std::get<graph::PermutationAttributes>(node.attributes).axes;
      const Tensor x = get(node.inputs[0]);
      return set(out,
                 made(node, "transpose", {{"x", x}, {"perm", w_.integers({axes.begin(), axes.end()})}}, x.type.dtype));
    }
    case Op::concat: {
      const proto::DataType in = computed_in(node);
      std::vector<Tensor> parts;
      for (const ValueId id : node.inputs) parts.push_back(get(id, in));
      const std::int64_t axis = std::get<graph::AxisAttributes>(node.attributes).axis;
      return set(out, made(node, "concat",
                           {{"values", parts}, {"axis", w_.integer(axis)}, {"interleave", w_.boolean(false)}}, in));
    }
    case Op::split: {
      const Tensor x = get(node.inputs[0]);
      std::vector<TensorType> types;
      for (const ValueId id : node.outputs) types.push_back({.dtype = x.type.dtype, .shape = shape_of(id)});
      const auto& sizes = std::get<graph::SplitAttributes>(node.attributes).sizes;
      const auto parts =
          w_.ops("split", {{"x", x}, {"split_sizes", w_.integers(sizes)}, {"axis", w_.integer(-1)}}, types);
      for (std::size_t i = 0; i < parts.size(); ++i) set(node.outputs[i], parts[i]);
      return;
    }
    case Op::range:  // written where a number is taken out of it
      ranges_.insert(out);
      return;
    case Op::select: {
      const proto::DataType in = type_of(out);
      return set(
          out,
          made(node, "select",
               {{"cond", get(node.inputs[0])}, {"a", get(node.inputs[1], in)}, {"b", get(node.inputs[2], in)}}, in));
    }
    case Op::cast:
      return set(out, get(node.inputs[0], type_of(out)));
    case Op::negate: {
      const proto::DataType in = computed_in(node);
      return set(out, made(node, "mul", {{"x", get(node.inputs[0], in)}, {"y", w_.number(-1.0, in)}}, in));
    }
    default:
      throw std::logic_error(fmt::format("{} has no form in a Core ML program", graph::name(node.op)));
  }
}

}  // namespace pastkv::targets::coreml
