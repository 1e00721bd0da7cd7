// Operations of the standard, in the graph's primitive operations; a product with a constant matrix is a linear.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "targets/onnx/importer.h"

namespace pastkv::targets {

using formats::OnnxTensor;
using graph::AxisAttributes;
using graph::Dim;
using graph::Op;
using graph::Shape;
using graph::ShapeAttributes;
using graph::Symbol;
using graph::ValueId;
using onnx::TensorProto;
using tensor::DType;

namespace {

constexpr std::int64_t kFar = std::int64_t{1} << 31;  // no axis is so long: a slice to there goes to the end

int counted_axis(std::int64_t axis, std::size_t axes) {
  return static_cast<int>(axis < 0 ? axis + static_cast<std::int64_t>(axes) : axis);
}

}  // namespace

const std::map<std::string, OnnxImporter::Handler, std::less<>>& OnnxImporter::handlers() {
  using I = OnnxImporter;
  static const std::map<std::string, Handler, std::less<>> kHandlers = {
      {"Identity", &I::on_identity},
      {"Cast", &I::on_cast},
      {"Constant", &I::on_constant},
      {"Shape", &I::on_shape},
      {"Gather", &I::on_gather},
      {"Slice", &I::on_slice},
      {"Concat", &I::on_concat},
      {"Reshape", &I::on_reshape},
      {"Unsqueeze", &I::on_reshape},
      {"Squeeze", &I::on_reshape},
      {"Flatten", &I::on_reshape},
      {"Transpose", &I::on_transpose},
      {"Expand", &I::on_expand},
      {"ConstantOfShape", &I::on_constant_of_shape},
      {"Range", &I::on_range},
      {"Where", &I::on_where},
      {"Add", &I::on_binary},
      {"Sub", &I::on_binary},
      {"Mul", &I::on_binary},
      {"Div", &I::on_binary},
      {"Pow", &I::on_binary},
      {"Min", &I::on_binary},
      {"Max", &I::on_binary},
      {"Equal", &I::on_binary},
      {"Less", &I::on_binary},
      {"LessOrEqual", &I::on_binary},
      {"Greater", &I::on_binary},
      {"GreaterOrEqual", &I::on_binary},
      {"And", &I::on_binary},
      {"Or", &I::on_binary},
      {"Not", &I::on_unary},
      {"Neg", &I::on_unary},
      {"Abs", &I::on_unary},
      {"Exp", &I::on_unary},
      {"Sqrt", &I::on_unary},
      {"Reciprocal", &I::on_unary},
      {"Tanh", &I::on_unary},
      {"Erf", &I::on_unary},
      {"Sin", &I::on_unary},
      {"Cos", &I::on_unary},
      {"Sigmoid", &I::on_unary},
      {"Relu", &I::on_unary},
      {"Gelu", &I::on_unary},
      {"FastGelu", &I::on_unary},
      {"QuickGelu", &I::on_unary},
      {"IsNaN", &I::on_unary},
      {"Softmax", &I::on_softmax},
      {"ReduceSum", &I::on_reduce},
      {"ReduceMean", &I::on_reduce},
      {"ReduceMax", &I::on_reduce},
      {"MatMul", &I::on_matmul},
      {"Gemm", &I::on_gemm},
      {"CumSum", &I::on_cumsum},
      {"Split", &I::on_split},
      {"LayerNormalization", &I::on_norm},
      {"RMSNormalization", &I::on_norm},
      {"SimplifiedLayerNormalization", &I::on_norm},
      {"DequantizeLinear", &I::on_dequantize},
      {"SkipSimplifiedLayerNormalization", &I::on_skip_norm},
      {"GroupQueryAttention", &I::on_grouped_attention},
      {"MatMulNBits", &I::on_block_matmul},
      {"RotaryEmbedding", &I::on_rotary},
      {"GatherBlockQuantized", &I::on_block_gather}};
  return kHandlers;
}

// --- layout ---

void OnnxImporter::on_identity(const onnx::NodeProto& node) {
  give(node, in(node, 0));
}

// All fractions are computed in f32, whatever the file rounds them to.
void OnnxImporter::on_cast(const onnx::NodeProto& node) {
  const Item from = in(node, 0);
  DType to = DType::i64;
  switch (whole(node, "to", 0)) {
    case TensorProto::FLOAT:
    case TensorProto::FLOAT16:
    case TensorProto::BFLOAT16:
    case TensorProto::DOUBLE:
      to = DType::f32;
      break;
    case TensorProto::BOOL:
      to = DType::boolean;
      break;
    case TensorProto::INT32:
    case TensorProto::INT64:
      break;
    default:
      refuse(fmt::format("casts to {}", formats::onnx_type_name(static_cast<std::int32_t>(whole(node, "to", 0)))));
  }
  if (from.dtype == to || (from.sizes && to == DType::i64)) return give(node, from);
  give(node, 0, emit(Op::cast, {id(from)}, graph::CastAttributes{.dtype = to}));
}

void OnnxImporter::on_constant(const onnx::NodeProto& node) {
  if (const onnx::AttributeProto* value = attribute(node, "value")) {
    return give(node, initializer(file_.tensor(value->t())));
  }
  const onnx::AttributeProto* one = attribute(node, "value_int");
  const onnx::AttributeProto* several = attribute(node, "value_ints");
  if (one != nullptr) return give(node, Item{.shape = {}, .dtype = DType::i64, .sizes = {{Dim(one->i())}}});
  if (several != nullptr) {
    std::vector<Dim> sizes(several->ints().begin(), several->ints().end());
    const auto count = static_cast<std::int64_t>(sizes.size());
    return give(node, Item{.shape = {count}, .dtype = DType::i64, .sizes = std::move(sizes)});
  }
  if (const onnx::AttributeProto* value = attribute(node, "value_float")) {
    return give(node, 0, number(static_cast<double>(value->f())));
  }
  refuse("holds no numbers");
}

void OnnxImporter::on_shape(const onnx::NodeProto& /*node*/) {}  // known_sizes has given it

void OnnxImporter::on_gather(const onnx::NodeProto& node) {
  const Item table = in(node, 0);
  const Item indices = in(node, 1);
  const int axis = counted_axis(whole(node, "axis", 0), table.shape.size());
  if (axis == 0 && !indices.sizes) return give(node, 0, emit(Op::gather, {id(table), id(indices)}));
  if (!indices.sizes || indices.sizes->size() != 1) refuse("gathers computed places along another axis than the first");
  const Dim size = table.shape.at(static_cast<std::size_t>(axis));
  Dim at = (*indices.sizes)[0];
  if (at.is_constant() && at.constant() < 0) at = size + at;
  ValueId row = emit(Op::slice, {id(table)}, graph::SliceAttributes{.axis = axis, .begin = at, .end = at + 1});
  if (indices.shape.empty()) {
    Shape shorter = shape(row);
    shorter.erase(shorter.begin() + axis);
    row = emit(Op::reshape, {row}, ShapeAttributes{.shape = shorter});
  }
  give(node, 0, row);
}

void OnnxImporter::on_slice(const onnx::NodeProto& node) {
  ValueId x = id(node, 0);
  const std::vector<Dim> begins = sizes_in(node, 1);
  const std::vector<Dim> ends = sizes_in(node, 2);
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < begins.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  if (has(node, 3)) axes = numbers_in(node, 3);
  if (ends.size() != begins.size() || axes.size() != begins.size()) refuse("begins, ends and axes differ in number");
  if (has(node, 4)) {
    for (const std::int64_t step : numbers_in(node, 4)) {
      if (step != 1) refuse(fmt::format("slices by steps of {}", step));
    }
  }
  for (std::size_t i = 0; i < begins.size(); ++i) {
    const int axis = counted_axis(axes[i], shape(x).size());
    if (axis < 0 || std::cmp_greater_equal(axis, shape(x).size()))
      refuse(fmt::format("axis {} of {}", axis, graph::text(shape(x))));
    const Dim size = shape(x)[static_cast<std::size_t>(axis)];
    const auto from_end = [&](const Dim& at) {
      if (at == Dim(Symbol::rows) * -1) return true;
      return at.is_constant() && at.constant() < 0;
    };
    const Dim begin = from_end(begins[i]) ? size + begins[i] : begins[i];
    const bool far = ends[i].is_constant() && ends[i].constant() >= (size.is_constant() ? size.constant() : kFar);
    const Dim end = far ? size : from_end(ends[i]) ? size + ends[i] : ends[i];
    if (begin == Dim(0) && end == size) continue;
    x = emit(Op::slice, {x}, graph::SliceAttributes{.axis = axis, .begin = begin, .end = end});
  }
  give(node, 0, x);
}

void OnnxImporter::on_concat(const onnx::NodeProto& node) {
  std::vector<ValueId> parts;
  for (int i = 0; i < node.input_size(); ++i) parts.push_back(id(node, i));
  give(node, 0, emit(Op::concat, parts, AxisAttributes{.axis = static_cast<int>(whole(node, "axis", 0))}));
}

void OnnxImporter::on_reshape(const onnx::NodeProto& node) {
  const ValueId x = id(node, 0);
  const Shape from = shape(x);
  Shape to;
  if (node.op_type() == "Reshape") {
    to = reshaped(from, sizes_in(node, 1), whole(node, "allowzero", 0) != 0);
  } else if (node.op_type() == "Flatten") {
    const int axis = counted_axis(whole(node, "axis", 1), from.size());
    if (axis < 0 || std::cmp_greater(axis, from.size())) refuse(fmt::format("axis {} of {}", axis, graph::text(from)));
    const auto product = [&](std::size_t begin, std::size_t end) {
      Dim all = 1;
      for (std::size_t i = begin; i < end; ++i) {
        if (from[i].is_constant()) {
          all = all * from[i].constant();
        } else if (all.is_constant()) {
          all = from[i] * all.constant();
        } else {
          refuse(fmt::format("flattens {}", graph::text(from)));
        }
      }
      return all;
    };
    to = {product(0, static_cast<std::size_t>(axis)), product(static_cast<std::size_t>(axis), from.size())};
  } else if (node.op_type() == "Unsqueeze") {
    std::vector<std::int64_t> axes = numbers_in(node, 1);
    const std::size_t count = from.size() + axes.size();
    for (std::int64_t& axis : axes) axis = counted_axis(axis, count);
    std::size_t next = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const bool added = std::ranges::find(axes, static_cast<std::int64_t>(i)) != axes.end();
      if (!added && next >= from.size()) refuse("unsqueezes an axis twice");
      to.push_back(added ? Dim(1) : from[next++]);
    }
  } else {  // Squeeze
    std::vector<std::int64_t> axes;
    if (has(node, 1)) axes = numbers_in(node, 1);
    for (std::int64_t& axis : axes) axis = counted_axis(axis, from.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      const bool named = std::ranges::find(axes, static_cast<std::int64_t>(i)) != axes.end();
      if (has(node, 1) ? !named : from[i] != Dim(1)) to.push_back(from[i]);
    }
  }
  give(node, 0, from == to ? x : emit(Op::reshape, {x}, ShapeAttributes{.shape = to}));
}

void OnnxImporter::on_transpose(const onnx::NodeProto& node) {
  const ValueId x = id(node, 0);
  std::vector<int> axes;
  if (const onnx::AttributeProto* perm = attribute(node, "perm")) {
    axes.assign(perm->ints().begin(), perm->ints().end());
  } else {
    for (std::size_t i = shape(x).size(); i-- > 0;) axes.push_back(static_cast<int>(i));
  }
  give(node, 0, emit(Op::transpose, {x}, graph::PermutationAttributes{.axes = axes}));
}

// Its target broadcasts both ways: a size of 1 keeps what is there.
void OnnxImporter::on_expand(const onnx::NodeProto& node) {
  const ValueId x = id(node, 0);
  std::vector<Dim> target = sizes_in(node, 1);
  const Shape& from = shape(x);
  while (target.size() < from.size()) target.insert(target.begin(), Dim(1));
  for (std::size_t i = 0; i < from.size(); ++i) {
    Dim& size = target[target.size() - 1 - i];
    if (size == Dim(1) || size == Dim(-1)) size = from[from.size() - 1 - i];
  }
  give(node, 0, target == from ? x : emit(Op::expand, {x}, ShapeAttributes{.shape = target}));
}

void OnnxImporter::on_constant_of_shape(const onnx::NodeProto& node) {
  double filler = 0.0;
  DType type = DType::f32;
  if (const onnx::AttributeProto* value = attribute(node, "value")) {
    const OnnxTensor held = file_.tensor(value->t());
    if (held.elements() != 1) refuse("fills with more than one number");
    filler = formats::onnx_numbers(held, 0, 1)[0];
    const bool fraction = held.type == TensorProto::FLOAT || held.type == TensorProto::FLOAT16;
    type = held.type == TensorProto::BOOL ? DType::boolean : fraction ? DType::f32 : DType::i64;
  }
  const Shape to = sizes_in(node, 0);
  const ValueId one = number(filler, type);
  give(node, 0, to.empty() ? one : emit(Op::expand, {one}, ShapeAttributes{.shape = to}));
}

void OnnxImporter::on_range(const onnx::NodeProto& node) {
  const Dim begin = sizes_in(node, 0)[0];
  const Dim end = sizes_in(node, 1)[0];
  if (sizes_in(node, 2)[0] != Dim(1)) refuse("counts by steps other than 1");
  ValueId numbers = emit(Op::range, {}, ShapeAttributes{.shape = {end}});
  if (begin != Dim(0)) {
    numbers = emit(Op::slice, {numbers}, graph::SliceAttributes{.axis = 0, .begin = begin, .end = end});
  }
  give(node, 0, numbers);
}

// --- arithmetic ---

void OnnxImporter::on_where(const onnx::NodeProto& node) {
  give(node, 0, emit(Op::select, {id(node, 0), id(node, 1), id(node, 2)}));
}

void OnnxImporter::on_binary(const onnx::NodeProto& node) {
  const std::string& op = node.op_type();
  if (node.input_size() != 2) refuse(fmt::format("{} inputs, takes 2", node.input_size()));
  const ValueId a = id(node, 0);
  const ValueId b = id(node, 1);
  static const std::map<std::string, Op> kPlain = {
      {"Add", Op::add},   {"Sub", Op::subtract}, {"Mul", Op::multiply},           {"Div", Op::divide},
      {"Pow", Op::power}, {"Less", Op::less},    {"LessOrEqual", Op::less_equal}, {"And", Op::logical_and}};
  if (const auto plain = kPlain.find(op); plain != kPlain.end()) return give(node, 0, emit(plain->second, {a, b}));
  if (op == "Greater") return give(node, 0, emit(Op::less, {b, a}));
  if (op == "GreaterOrEqual") return give(node, 0, emit(Op::less_equal, {b, a}));
  if (op == "Max") return give(node, 0, emit(Op::select, {emit(Op::less, {a, b}), b, a}));
  if (op == "Min") return give(node, 0, emit(Op::select, {emit(Op::less, {a, b}), a, b}));
  if (op == "Or") return give(node, 0, emit(Op::select, {a, a, b}));
  give(node, 0, emit(Op::logical_and, {emit(Op::less_equal, {a, b}), emit(Op::less_equal, {b, a})}));  // Equal
}

ValueId OnnxImporter::logical_not(ValueId x) {
  return emit(Op::select, {x, number(0.0, DType::boolean), number(1.0, DType::boolean)});
}

ValueId OnnxImporter::sigmoid(ValueId x) {
  const ValueId one = number(1.0);
  return emit(Op::divide, {one, emit(Op::add, {one, emit(Op::exponential, {emit(Op::negate, {x})})})});
}

void OnnxImporter::on_unary(const onnx::NodeProto& node) {
  const std::string& op = node.op_type();
  const ValueId x = id(node, 0);
  static const std::map<std::string, Op> kPlain = {
      {"Neg", Op::negate}, {"Abs", Op::absolute}, {"Exp", Op::exponential}, {"Sqrt", Op::square_root},
      {"Tanh", Op::tanh},  {"Erf", Op::erf},      {"Sin", Op::sine},        {"Cos", Op::cosine}};
  if (const auto plain = kPlain.find(op); plain != kPlain.end()) return give(node, 0, emit(plain->second, {x}));
  if (op == "Not") return give(node, 0, logical_not(x));
  if (op == "IsNaN") return give(node, 0, logical_not(emit(Op::less_equal, {x, x})));
  if (op == "Reciprocal") return give(node, 0, emit(Op::divide, {number(1.0), x}));
  if (op == "Sigmoid") return give(node, 0, sigmoid(x));
  if (op == "QuickGelu") {  // x * sigmoid(alpha x); with 1 it is silu
    const ValueId alpha = number(static_cast<double>(fraction(node, "alpha", 1.702F)));
    return give(node, 0, emit(Op::multiply, {x, sigmoid(emit(Op::multiply, {x, alpha}))}));
  }
  graph::Activation kind = graph::Activation::gelu_erf;
  if (op == "Relu") kind = graph::Activation::relu;
  if (op == "FastGelu" || text(node, "approximate") == "tanh") kind = graph::Activation::gelu_tanh;
  give(node, 0, emit(Op::activation, {x}, graph::ActivationAttributes{.kind = kind}));
}

void OnnxImporter::on_softmax(const onnx::NodeProto& node) {
  const ValueId x = id(node, 0);
  const int axis = counted_axis(whole(node, "axis", -1), shape(x).size());
  if (std::cmp_not_equal(axis + 1, shape(x).size())) refuse("softmax along another axis than the last");
  give(node, 0, emit(Op::softmax, {x}));
}

void OnnxImporter::on_reduce(const onnx::NodeProto& node) {
  ValueId x = id(node, 0);
  std::vector<std::int64_t> axes;
  if (has(node, 1)) axes = numbers_in(node, 1);
  if (const onnx::AttributeProto* named = attribute(node, "axes"))
    axes.assign(named->ints().begin(), named->ints().end());
  if (axes.size() != 1) refuse(fmt::format("reduces along {} axes, and only one is taken", axes.size()));
  const int axis = counted_axis(axes[0], shape(x).size());
  const Op op = node.op_type() == "ReduceSum"    ? Op::reduce_sum
                : node.op_type() == "ReduceMean" ? Op::reduce_mean
                                                 : Op::reduce_max;
  const bool is_whole = dtype(x) != DType::f32;
  if (is_whole) x = emit(Op::cast, {x}, graph::CastAttributes{.dtype = DType::f32});
  x = emit(op, {x}, AxisAttributes{.axis = axis});
  if (is_whole) x = emit(Op::cast, {x}, graph::CastAttributes{.dtype = DType::i64});
  if (whole(node, "keepdims", 1) == 0) {
    Shape shorter = shape(x);
    shorter.erase(shorter.begin() + axis);
    x = emit(Op::reshape, {x}, ShapeAttributes{.shape = shorter});
  }
  give(node, 0, x);
}

void OnnxImporter::on_cumsum(const onnx::NodeProto& node) {
  if (whole(node, "exclusive", 0) != 0 || whole(node, "reverse", 0) != 0) refuse("counts exclusively, or backwards");
  const std::vector<std::int64_t> axis = numbers_in(node, 1);
  if (axis.size() != 1) refuse("wants one axis");
  give(node, 0, emit(Op::cumulative_sum, {id(node, 0)}, AxisAttributes{.axis = static_cast<int>(axis[0])}));
}

void OnnxImporter::on_split(const onnx::NodeProto& node) {
  const ValueId x = id(node, 0);
  const int axis = counted_axis(whole(node, "axis", 0), shape(x).size());
  std::vector<Dim> sizes;
  if (has(node, 1)) {
    sizes = sizes_in(node, 1);
  } else {
    const Dim& whole_axis = shape(x).at(static_cast<std::size_t>(axis));
    if (!whole_axis.is_constant() || whole_axis.constant() % node.output_size() != 0) refuse("splits unevenly");
    sizes.assign(static_cast<std::size_t>(node.output_size()), Dim(whole_axis.constant() / node.output_size()));
  }
  if (std::cmp_not_equal(sizes.size(), node.output_size())) refuse("has another number of parts than of outputs");
  Dim begin = 0;
  for (int i = 0; i < node.output_size(); ++i) {
    const Dim end = begin + sizes[static_cast<std::size_t>(i)];
    give(node, i, emit(Op::slice, {x}, graph::SliceAttributes{.axis = axis, .begin = begin, .end = end}));
    begin = end;
  }
}

void OnnxImporter::on_norm(const onnx::NodeProto& node) {
  const ValueId x = id(node, 0);
  const int axis = counted_axis(whole(node, "axis", -1), shape(x).size());
  if (std::cmp_not_equal(axis + 1, shape(x).size())) refuse("a norm over more than the last axis");
  const graph::NormAttributes norm{.epsilon = fraction(node, "epsilon", 1e-5F)};
  if (node.op_type() != "LayerNormalization") return give(node, 0, b_.rms_norm(x, id(node, 1), norm));
  give(node, 0, b_.layer_norm(x, id(node, 1), has(node, 2) ? id(node, 2) : -1, norm));
}

// --- matrices ---

ValueId OnnxImporter::matrix(const onnx::NodeProto& node, int i, bool transposed) {
  const OnnxTensor held = constant_in(node, i);
  const std::string name = held.name.empty() ? node.input(i) : held.name;
  const std::string key = (transposed ? "turned " : "as is ") + node.input(i);
  if (const auto known = matrices_.find(key); known != matrices_.end()) return known->second;
  const std::int64_t rows = held.shape[0];
  const std::int64_t columns = held.shape[1];
  if (!transposed) {
    // A table that is a matrix too is one weight.
    if (const Item& known = item(node.input(i)); b_.graph().value(id(known)).kind == graph::ValueKind::weight) {
      return matrices_[key] = id(known);
    }
  }
  const auto load = [held, rows, columns, transposed] {
    const std::vector<double> from = formats::onnx_numbers(held, 0, held.elements());
    std::vector<float> to(from.begin(), from.end());
    if (!transposed) return to;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        to[static_cast<std::size_t>(c * rows + r)] =
            static_cast<float>(from[static_cast<std::size_t>(r * columns + c)]);
      }
    }
    return to;
  };
  const std::vector<std::int64_t> of = transposed ? std::vector{columns, rows} : std::vector{rows, columns};
  return matrices_[key] =
             weight(name, of, load, {held}, formats::onnx_type_name(held.type), formats::onnx_bits(held.type));
}

void OnnxImporter::on_matmul(const onnx::NodeProto& node) {
  const bool constant = has(node, 1) && is_constant(node.input(1)) && constant_in(node, 1).shape.size() == 2;
  if (constant && !is_constant(node.input(0))) {
    return give(node, 0, b_.linear(id(node, 0), matrix(node, 1, true)));
  }
  give(node, 0, emit(Op::matmul, {id(node, 0), id(node, 1)}));
}

void OnnxImporter::on_gemm(const onnx::NodeProto& node) {
  if (fraction(node, "alpha", 1.0F) != 1.0F || fraction(node, "beta", 1.0F) != 1.0F || whole(node, "transA", 0) != 0) {
    refuse("a Gemm that scales, or turns its first matrix");
  }
  const bool turned = whole(node, "transB", 0) != 0;
  ValueId y = -1;
  if (has(node, 1) && is_constant(node.input(1)) && constant_in(node, 1).shape.size() == 2) {
    y = b_.linear(id(node, 0), matrix(node, 1, !turned));
  } else if (turned && b_.graph().value(id(node, 1)).kind == graph::ValueKind::weight) {
    y = b_.linear(id(node, 0), id(node, 1));
  } else {
    ValueId right = id(node, 1);
    if (turned) right = emit(Op::transpose, {right}, graph::PermutationAttributes{.axes = {1, 0}});
    y = emit(Op::matmul, {id(node, 0), right});
  }
  give(node, 0, has(node, 2) ? emit(Op::add, {y, id(node, 2)}) : y);
}

// Constant blocks along the last axis, or one scale for the whole.
void OnnxImporter::on_dequantize(const onnx::NodeProto& node) {
  const OnnxTensor values = constant_in(node, 0);
  const OnnxTensor scales = constant_in(node, 1);
  std::optional<OnnxTensor> zeros;
  if (has(node, 2)) zeros = constant_in(node, 2);
  if (values.shape.size() != 2) refuse(fmt::format("dequantizes a tensor of {} axes", values.shape.size()));
  const std::int64_t width = values.shape[1];
  const std::int64_t block = scales.elements() == 1 ? width * values.shape[0] : whole(node, "block_size", 0);
  const int axis = counted_axis(whole(node, "axis", 1), 2);
  const bool per_row = block == 0 && axis == 0 && scales.elements() == values.shape[0];
  const std::int64_t length = per_row ? width : block;
  const bool fits = length > 0 && (axis == 1 || per_row || scales.elements() == 1) &&
                    (values.elements() + length - 1) / length == scales.elements() &&
                    (length >= width || width % length == 0);
  if (!fits) refuse("dequantizes by blocks that do not lie along the rows");
  if (zeros && zeros->elements() != scales.elements()) refuse("has another number of zero points than of scales");
  const auto load = [values, scales, zeros, length] {
    const std::vector<double> numbers = formats::onnx_numbers(values, 0, values.elements());
    const std::vector<double> by = formats::onnx_numbers(scales, 0, scales.elements());
    std::vector<double> from(by.size(), 0.0);
    if (zeros) from = formats::onnx_numbers(*zeros, 0, zeros->elements());
    std::vector<float> out(numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::size_t at = i / static_cast<std::size_t>(length);
      out[i] = static_cast<float>((numbers[i] - from[at]) * by[at]);
    }
    return out;
  };
  const int bits = formats::onnx_bits(values.type);
  const std::string type = per_row || scales.elements() == 1 ? formats::onnx_type_name(values.type)
                                                             : fmt::format("int{} in blocks of {}", bits, length);
  give(node, 0, weight(values.name, values.shape, load, {values, scales}, type, bits));
}

}  // namespace pastkv::targets
