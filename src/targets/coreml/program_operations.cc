// Operations that compute.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "targets/coreml/program_reader.h"

namespace pastkv::targets::coreml {

using graph::Dim;
using graph::Op;
using graph::Shape;
using graph::ValueId;
using tensor::DType;

const std::map<std::string, ProgramReader::Handler, std::less<>>& ProgramReader::handlers() {
  using R = ProgramReader;
  static const std::map<std::string, Handler, std::less<>> kHandlers = {
      {"const", &R::read_const},
      {"identity", &R::read_identity},
      {"cast", &R::read_cast},
      {"add", &R::read_arithmetic},
      {"sub", &R::read_arithmetic},
      {"mul", &R::read_arithmetic},
      {"real_div", &R::read_arithmetic},
      {"floor_div", &R::read_arithmetic},
      {"pow", &R::read_arithmetic},
      {"maximum", &R::read_arithmetic},
      {"minimum", &R::read_arithmetic},
      {"less", &R::read_comparison},
      {"less_equal", &R::read_comparison},
      {"greater", &R::read_comparison},
      {"greater_equal", &R::read_comparison},
      {"equal", &R::read_comparison},
      {"not_equal", &R::read_comparison},
      {"logical_and", &R::read_logical},
      {"logical_or", &R::read_logical},
      {"logical_not", &R::read_logical},
      {"abs", &R::read_function},
      {"exp", &R::read_function},
      {"sqrt", &R::read_function},
      {"rsqrt", &R::read_function},
      {"inverse", &R::read_function},
      {"square", &R::read_function},
      {"tanh", &R::read_function},
      {"erf", &R::read_function},
      {"sin", &R::read_function},
      {"cos", &R::read_function},
      {"silu", &R::read_activation},
      {"gelu", &R::read_activation},
      {"relu", &R::read_activation},
      {"sigmoid", &R::read_activation},
      {"reduce_sum", &R::read_reduce},
      {"reduce_mean", &R::read_reduce},
      {"reduce_max", &R::read_reduce},
      {"softmax", &R::read_softmax},
      {"layer_norm", &R::read_layer_norm},
      {"linear", &R::read_linear},
      {"matmul", &R::read_matmul},
      {"conv", &R::read_conv},
      {"scaled_dot_product_attention", &R::read_attention},
      {"select", &R::read_select},
      {"shape", &R::read_shape},
      {"gather", &R::read_gather},
      {"slice_by_index", &R::read_slice_by_index},
      {"slice_by_size", &R::read_slice_by_size},
      {"slice_update", &R::read_slice_update},
      {"concat", &R::read_concat},
      {"stack", &R::read_stack},
      {"split", &R::read_split},
      {"reshape", &R::read_reshape},
      {"expand_dims", &R::read_expand_dims},
      {"squeeze", &R::read_squeeze},
      {"transpose", &R::read_transpose},
      {"tile", &R::read_tile},
      {"range_1d", &R::read_range},
      {"read_state", &R::read_state},
      {"write_state", &R::read_write_state},
  };
  return kHandlers;
}

void ProgramReader::read_const(const proto::Operation& op) {
  const auto value = op.attributes().find("val");
  if (value == op.attributes().end()) fail_text("is a constant without a value");
  Item made = constant(value->second, op.outputs(0).name());
  made.name = op.outputs(0).name();
  items_.emplace(made.name, std::move(made));
}

void ProgramReader::read_identity(const proto::Operation& op) {
  Item of = item(op, "x");
  // A value of its own: the graph's outputs are renamed, and a name is one value's.
  const ValueId x = tensor(of);
  set(op, reshape(x, shape(x)));
}

void ProgramReader::read_cast(const proto::Operation& op) {
  Item x = item(op, "x");
  const proto::DataType to = op.outputs(0).type().tensortype().datatype();
  const bool to_integer = to >= proto::INT8 && to <= proto::UINT64;
  if (x.sizes && to_integer) return set_sizes(op, *x.sizes);
  const ValueId value = tensor(x);
  if (to_integer) return set(op, as_dtype(value, DType::i32));
  if (to == proto::BOOL) return set(op, as_dtype(value, DType::boolean));
  if (dtype(value) != DType::f32) return set(op, as_dtype(value, DType::f32));
  if (to == proto::FLOAT16 && x.dtype == proto::FLOAT32) {  // rounds, and is a float again
    return set(op, emit(Op::cast, {emit(Op::cast, {value}, graph::CastAttributes{.dtype = DType::f16})},
                        graph::CastAttributes{.dtype = DType::f32}));
  }
  Item made = x;  // the same number
  made.name = op.outputs(0).name();
  made.dtype = to;
  made.value = value;
  items_.emplace(made.name, std::move(made));
}

// --- two operands ---

// Integers of both that are known: the result, number by number. Nothing when it is no linear form.
std::optional<std::vector<Dim>> ProgramReader::computed(const std::string& type, const Item& x, const Item& y) const {
  if (!x.sizes || !y.sizes) return std::nullopt;
  const std::size_t count = std::max(x.sizes->size(), y.sizes->size());
  if ((x.sizes->size() != count && x.sizes->size() != 1) || (y.sizes->size() != count && y.sizes->size() != 1)) {
    return std::nullopt;
  }
  std::vector<Dim> out;
  for (std::size_t i = 0; i < count; ++i) {
    const Dim& a = (*x.sizes)[x.sizes->size() == 1 ? 0 : i];
    const Dim& b = (*y.sizes)[y.sizes->size() == 1 ? 0 : i];
    if (type == "add") {
      out.push_back(a + b);
    } else if (type == "sub") {
      out.push_back(a - b);
    } else if (type == "mul" && b.is_constant()) {
      out.push_back(a * b.constant());
    } else if (type == "mul" && a.is_constant()) {
      out.push_back(b * a.constant());
    } else if (a.is_constant() && b.is_constant() && type == "maximum") {
      out.emplace_back(std::max(a.constant(), b.constant()));
    } else if (a.is_constant() && b.is_constant() && type == "minimum") {
      out.emplace_back(std::min(a.constant(), b.constant()));
    } else if (a.is_constant() && b.is_constant() && type == "floor_div" && a.constant() >= 0 && b.constant() > 0) {
      out.emplace_back(a.constant() / b.constant());
    } else {
      return std::nullopt;
    }
  }
  return out;
}

void ProgramReader::read_arithmetic(const proto::Operation& op) {
  Item x = item(op, "x");
  Item y = item(op, "y");
  if (auto known = computed(op.type(), x, y)) return set_sizes(op, std::move(*known));
  set(op, binary(op.type(), tensor(x), tensor(y)));
}

ValueId ProgramReader::binary(const std::string& type, ValueId x, ValueId y) {
  if (type == "add") return emit(Op::add, {x, y});
  if (type == "sub") return emit(Op::subtract, {x, y});
  if (type == "mul") return emit(Op::multiply, {x, y});
  if (type == "real_div") return emit(Op::divide, {floats(x), floats(y)});
  if (type == "pow") return emit(Op::power, {floats(x), floats(y)});
  if (type == "maximum") return emit(Op::select, {emit(Op::less, {x, y}), y, x});
  if (type == "minimum") return emit(Op::select, {emit(Op::less, {x, y}), x, y});
  fail_text(fmt::format("{} of numbers that no shape gives is not read", type));
}

void ProgramReader::read_comparison(const proto::Operation& op) {
  const ValueId x = tensor(op, "x");
  const ValueId y = tensor(op, "y");
  const std::string& type = op.type();
  if (type == "less") return set(op, emit(Op::less, {x, y}));
  if (type == "less_equal") return set(op, emit(Op::less_equal, {x, y}));
  if (type == "greater") return set(op, emit(Op::less, {y, x}));
  if (type == "greater_equal") return set(op, emit(Op::less_equal, {y, x}));
  const ValueId equal = emit(Op::logical_and, {emit(Op::less_equal, {x, y}), emit(Op::less_equal, {y, x})});
  if (type == "equal") return set(op, equal);
  set(op, emit(Op::select, {equal, scalar(0.0, DType::boolean), scalar(1.0, DType::boolean)}));
}

void ProgramReader::read_logical(const proto::Operation& op) {
  const ValueId x = tensor(op, "x");
  if (op.type() == "logical_not") {
    return set(op, emit(Op::select, {x, scalar(0.0, DType::boolean), scalar(1.0, DType::boolean)}));
  }
  const ValueId y = tensor(op, "y");
  set(op, op.type() == "logical_and" ? emit(Op::logical_and, {x, y}) : emit(Op::select, {x, x, y}));
}

// --- one operand ---

void ProgramReader::read_function(const proto::Operation& op) {
  const ValueId x = floats(tensor(op, "x"));
  const std::string& type = op.type();
  if (type == "square") return set(op, emit(Op::multiply, {x, x}));
  if (type == "rsqrt" || type == "inverse") {
    const double epsilon = number(op, "epsilon", type == "rsqrt" ? 1e-12 : 1e-4);
    const ValueId raised = epsilon == 0.0 ? x : emit(Op::add, {x, scalar(epsilon)});
    return set(op, emit(Op::divide, {scalar(1.0), type == "rsqrt" ? emit(Op::square_root, {raised}) : raised}));
  }
  static const std::map<std::string, Op, std::less<>> kFunctions = {
      {"abs", Op::absolute}, {"exp", Op::exponential}, {"sqrt", Op::square_root}, {"tanh", Op::tanh},
      {"erf", Op::erf},      {"sin", Op::sine},        {"cos", Op::cosine}};
  set(op, emit(kFunctions.at(type), {x}));
}

void ProgramReader::read_activation(const proto::Operation& op) {
  const ValueId x = floats(tensor(op, "x"));
  const auto activation = [&](graph::Activation kind) {
    set(op, emit(Op::activation, {x}, graph::ActivationAttributes{.kind = kind}));
  };
  if (op.type() == "silu") return activation(graph::Activation::silu);
  if (op.type() == "relu") return activation(graph::Activation::relu);
  if (op.type() == "sigmoid") {
    const ValueId power = emit(Op::exponential, {emit(Op::negate, {x})});
    return set(op, emit(Op::divide, {scalar(1.0), emit(Op::add, {power, scalar(1.0)})}));
  }
  const std::string mode = has(op, "mode") ? item(op, "mode").text : "EXACT";
  if (mode == "EXACT") return activation(graph::Activation::gelu_erf);
  if (mode == "TANH_APPROXIMATION") return activation(graph::Activation::gelu_tanh);
  fail_text(fmt::format("gelu of mode {} is not read", mode));
}

void ProgramReader::read_reduce(const proto::Operation& op) {
  ValueId x = tensor(op, "x");
  const DType type = dtype(x);
  const std::size_t rank = shape(x).size();
  std::vector<int> axes;
  if (has(op, "axes")) {
    for (const std::int64_t axis : integers(op, "axes")) axes.push_back(axis_of(axis, rank));
  } else {
    for (std::size_t i = 0; i < rank; ++i) axes.push_back(static_cast<int>(i));
  }
  const Op reduce = op.type() == "reduce_sum"   ? Op::reduce_sum
                    : op.type() == "reduce_max" ? Op::reduce_max
                                                : Op::reduce_mean;
  x = floats(x);
  for (const int axis : axes) x = emit(reduce, {x}, graph::AxisAttributes{.axis = axis});
  if (!flag(op, "keep_dims", false)) {
    Shape left;
    for (std::size_t i = 0; i < rank; ++i) {
      if (std::ranges::find(axes, static_cast<int>(i)) == axes.end()) left.push_back(shape(x)[i]);
    }
    x = reshape(x, left);
  }
  set(op, as_dtype(x, type));
}

void ProgramReader::read_softmax(const proto::Operation& op) {
  const ValueId x = tensor(op, "x");
  const int last = static_cast<int>(shape(x).size()) - 1;
  const int axis = axis_of(integer(op, "axis", -1), shape(x).size());
  if (axis == last) return set(op, emit(Op::softmax, {x}));
  std::vector<int> axes;
  for (int i = 0; i <= last; ++i) axes.push_back(i);
  std::swap(axes[static_cast<std::size_t>(axis)], axes.back());
  set(op, transpose(emit(Op::softmax, {transpose(x, axes)}), axes));
}

void ProgramReader::read_layer_norm(const proto::Operation& op) {
  const ValueId x = tensor(op, "x");
  const std::vector<std::int64_t> axes = integers(op, "axes");
  if (axes.size() != 1 || axis_of(axes[0], shape(x).size()) != static_cast<int>(shape(x).size()) - 1) {
    fail_text("layer_norm over other axes than the last is not read");
  }
  const graph::NormAttributes norm{.epsilon = static_cast<float>(number(op, "epsilon", 1e-5)), .weight_offset = 0.0F};
  const Dim& width = shape(x).back();
  if (!width.is_constant()) fail_text("layer_norm over a size of run time");
  ValueId gain = -1;
  if (has(op, "gamma")) {
    gain = tensor(op, "gamma");
  } else {
    gain = b_.constant(fmt::format("constant.{}", constants_++), {width},
                       std::vector<double>(static_cast<std::size_t>(width.constant()), 1.0));
  }
  std::vector<ValueId> in{x, gain};
  if (has(op, "beta")) in.push_back(tensor(op, "beta"));
  set(op, emit(Op::layer_norm, std::move(in), norm));
}

// --- products ---

void ProgramReader::read_linear(const proto::Operation& op) {
  std::vector<ValueId> in{tensor(op, "x"), tensor(op, "weight")};
  if (has(op, "bias")) in.push_back(tensor(op, "bias"));
  set(op, emit(Op::linear, std::move(in)));
}

void ProgramReader::read_matmul(const proto::Operation& op) {
  ValueId x = tensor(op, "x");
  ValueId y = tensor(op, "y");
  if (flag(op, "transpose_x", false)) x = swap_last(x);
  if (flag(op, "transpose_y", false)) y = swap_last(y);
  set(op, emit(Op::matmul, {x, y}));
}

// 1x1 convolutions in one group: a matrix product over the channels.
void ProgramReader::read_conv(const proto::Operation& op) {
  const ValueId x = tensor(op, "x");            // [batch, in, height, width]
  const ValueId weight = tensor(op, "weight");  // [out, in, 1, 1]
  const Shape in = shape(x);
  const Shape kernel = shape(weight);
  bool plain = in.size() == 4 && kernel.size() == 4 && kernel[2] == Dim(1) && kernel[3] == Dim(1);
  plain = plain && kernel[1] == in[1] && integer(op, "groups", 1) == 1 && in[2] == Dim(1);
  for (const char* parameter : {"strides", "dilations"}) {
    if (has(op, parameter))
      plain = plain && std::ranges::all_of(integers(op, parameter), [](auto n) { return n == 1; });
  }
  if (has(op, "pad")) plain = plain && std::ranges::all_of(integers(op, "pad"), [](auto n) { return n == 0; });
  if (!plain) fail_text("conv is read with a kernel of 1x1 over [batch, channels, 1, width] only");
  const ValueId columns = reshape(x, {in[0], in[1], in[3]});
  ValueId y = emit(Op::matmul, {reshape(weight, {kernel[0], kernel[1]}), columns});
  if (has(op, "bias")) y = emit(Op::add, {y, reshape(tensor(op, "bias"), {kernel[0], 1})});
  set(op, reshape(y, {in[0], kernel[0], 1, in[3]}));
}

void ProgramReader::read_attention(const proto::Operation& op) {
  const ValueId q = tensor(op, "query");
  const ValueId k = tensor(op, "key");
  const ValueId v = tensor(op, "value");
  const Dim width = shape(q).empty() ? Dim(0) : shape(q).back();
  if (!width.is_constant() || width.constant() < 1) fail_text("attention over heads of no fixed width");
  const ValueId scaled = emit(Op::multiply, {q, scalar(1.0 / std::sqrt(static_cast<double>(width.constant())))});
  ValueId scores = emit(Op::matmul, {scaled, swap_last(k)});
  if (has(op, "attn_mask")) {
    const ValueId mask = tensor(op, "attn_mask");
    if (dtype(mask) == DType::boolean) {
      scores = emit(Op::select, {mask, scores, scalar(static_cast<double>(graph::kMaskedScore))});
    } else {
      scores = emit(Op::add, {scores, mask});
    }
  }
  set(op, emit(Op::matmul, {emit(Op::softmax, {scores}), v}));
}

void ProgramReader::read_select(const proto::Operation& op) {
  set(op, emit(Op::select, {tensor(op, "cond"), tensor(op, "a"), tensor(op, "b")}));
}

}  // namespace pastkv::targets::coreml
