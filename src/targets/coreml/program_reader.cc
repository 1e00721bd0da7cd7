#include "targets/coreml/program_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "tensor/codec.h"

namespace pastkv::targets::coreml {

using graph::Dim;
using graph::Op;
using graph::Shape;
using graph::ValueId;
using tensor::DType;

namespace {

constexpr std::int64_t kMostAxes = 8;
constexpr std::int64_t kLargestSize = std::int64_t{1} << 40;

std::string cut(const std::string& name) {
  constexpr std::size_t kLongest = 100;
  return name.size() <= kLongest ? name : name.substr(0, kLongest) + "...";
}

DType graph_type(proto::DataType dtype) {
  switch (dtype) {
    case proto::BOOL:
      return DType::boolean;
    case proto::FLOAT16:
    case proto::FLOAT32:
      return DType::f32;
    default:
      return DType::i32;
  }
}

bool is_integer(proto::DataType dtype) {
  return dtype >= proto::INT8 && dtype <= proto::UINT64;
}

}  // namespace

void ProgramReader::fail_text(std::string reason) const {
  throw Error({.file = package_.model_path.string(), .place = place_, .reason = std::move(reason), .remedy = {}});
}

ProgramReader::ProgramReader(const formats::coreml::MlPackage& package, const std::string& function,
                             const std::function<Shape(const std::string& name)>& shape_of_input)
    : package_(package), b_(package.path.stem().string()) {
  const auto& functions = package.model.mlprogram().functions();
  const auto found = functions.find(function);
  place_ = "function " + cut(function);
  if (found == functions.end()) fail_text("is not in the program");
  const proto::Function& of = found->second;
  const auto block = of.block_specializations().find(of.opset());
  if (block == of.block_specializations().end())
    fail_text(fmt::format("has no block for its opset {}", cut(of.opset())));
  declare_inputs(of, shape_of_input);
  for (const proto::Operation& op : block->second.operations()) read(op);
  place_ = "function " + cut(function);
  if (block->second.outputs().empty()) fail_text("has no output");
  for (const std::string& name : block->second.outputs()) {
    const auto output = items_.find(name);
    if (output == items_.end()) fail_text(fmt::format("its output {} is made by no operation", cut(name)));
    ValueId value = tensor(output->second);
    if (b_.graph().value(value).kind != graph::ValueKind::result) value = reshape(value, shape(value));
    b_.output(value, name);
  }
}

void ProgramReader::declare_inputs(const proto::Function& function,
                                   const std::function<Shape(const std::string& name)>& shape_of_input) {
  for (const proto::NamedValueType& input : function.inputs()) {
    place_ = "input " + cut(input.name());
    Item made{.name = input.name()};
    const bool is_state = input.type().has_statetype();
    const proto::ValueType& type = is_state ? input.type().statetype().wrappedtype() : input.type();
    if (!type.has_tensortype()) fail_text("is no tensor");
    made.dtype = type.tensortype().datatype();
    made.is_state = is_state;
    if (items_.contains(input.name()) || input.name().empty()) fail_text("has no name of its own");
    if (is_state) {
      for (const proto::Dimension& dimension : type.tensortype().dimensions()) {
        const std::uint64_t size = dimension.constant().size();
        if (size < 1 || size > kLargestSize) fail_text(fmt::format("is a state with an axis of {}", size));
        made.shape.emplace_back(static_cast<std::int64_t>(size));
      }
      made.value = b_.buffer(input.name(), made.shape);
    } else {
      made.shape = shape_of_input(input.name());
      made.value = b_.input(input.name(), graph_type(made.dtype), made.shape);
    }
    items_.emplace(input.name(), std::move(made));
  }
}

void ProgramReader::read(const proto::Operation& op) {
  place_ = "operation " + cut(op.outputs().empty() ? op.type() : op.outputs(0).name());
  const auto handler = handlers().find(op.type());
  if (handler == handlers().end()) fail_text(fmt::format("{} is no operation that is known", cut(op.type())));
  if (!op.blocks().empty()) fail_text(fmt::format("{} with a block of its own is not read", cut(op.type())));
  if (op.outputs().empty() && op.type() != "write_state") fail_text(fmt::format("{} has no output", cut(op.type())));
  for (const proto::NamedValueType& output : op.outputs()) {
    if (output.name().empty() || items_.contains(output.name())) fail_text("makes a name that is taken");
  }
  try {
    (this->*handler->second)(op);
  } catch (const std::logic_error& fault) {  // shapes that do not fit
    fail_text(fmt::format("{}: {}", op.type(), fault.what()));
  } catch (const std::overflow_error& fault) {
    fail_text(fmt::format("{}: {}", op.type(), fault.what()));
  }
}

// --- operands ---

bool ProgramReader::has(const proto::Operation& op, std::string_view parameter) const {
  return op.inputs().contains(std::string(parameter));
}

Item ProgramReader::bound(const proto::Argument::Binding& binding) {
  if (binding.has_value()) return constant(binding.value(), place_);
  const auto found = items_.find(binding.name());
  if (found == items_.end()) fail_text(fmt::format("{} is used before it is made", cut(binding.name())));
  // What is made for it now serves whoever asks for it later.
  if (!found->second.is_state && found->second.text.empty() && found->second.value < 0 && !found->second.sizes) {
    tensor(found->second);
  }
  return found->second;
}

std::vector<Item> ProgramReader::items(const proto::Operation& op, std::string_view parameter) {
  const auto found = op.inputs().find(std::string(parameter));
  if (found == op.inputs().end()) fail_text(fmt::format("{} has no operand {}", cut(op.type()), parameter));
  std::vector<Item> out;
  for (const auto& binding : found->second.arguments()) out.push_back(bound(binding));
  return out;
}

Item ProgramReader::item(const proto::Operation& op, std::string_view parameter) {
  std::vector<Item> all = items(op, parameter);
  if (all.size() != 1) fail_text(fmt::format("{}: {} operands {}, wants 1", cut(op.type()), all.size(), parameter));
  return std::move(all.front());
}

std::vector<Dim> ProgramReader::sizes(const proto::Operation& op, std::string_view parameter) {
  const Item of = item(op, parameter);
  if (!of.sizes) fail_text(fmt::format("{}: {} depends on numbers, not on shapes alone", cut(op.type()), parameter));
  return *of.sizes;
}

std::vector<std::int64_t> ProgramReader::integers(const proto::Operation& op, std::string_view parameter) {
  std::vector<std::int64_t> out;
  for (const Dim& dim : sizes(op, parameter)) {
    if (!dim.is_constant()) fail_text(fmt::format("{}: {} is {}, wants a number", op.type(), parameter, dim.text()));
    out.push_back(dim.constant());
  }
  return out;
}

std::int64_t ProgramReader::integer(const proto::Operation& op, std::string_view parameter, std::int64_t otherwise) {
  if (!has(op, parameter)) return otherwise;
  const std::vector<std::int64_t> all = integers(op, parameter);
  if (all.size() != 1) fail_text(fmt::format("{}: {} has {} numbers, wants 1", op.type(), parameter, all.size()));
  return all.front();
}

double ProgramReader::number(const proto::Operation& op, std::string_view parameter, double otherwise) {
  if (!has(op, parameter)) return otherwise;
  const Item of = item(op, parameter);
  if (!of.numbers || of.numbers->size() != 1) fail_text(fmt::format("{}: {} is no number", op.type(), parameter));
  return of.numbers->front();
}

bool ProgramReader::flag(const proto::Operation& op, std::string_view parameter, bool otherwise) {
  return number(op, parameter, otherwise ? 1.0 : 0.0) != 0.0;
}

std::vector<bool> ProgramReader::flags(const proto::Operation& op, std::string_view parameter, std::size_t count) {
  std::vector<bool> out(count, false);
  if (!has(op, parameter)) return out;
  const Item of = item(op, parameter);
  if (!of.numbers || of.numbers->size() != count)
    fail_text(fmt::format("{}: {} has no flag for each axis", op.type(), parameter));
  for (std::size_t i = 0; i < count; ++i) out[i] = (*of.numbers)[i] != 0.0;
  return out;
}

// --- constants ---

Item ProgramReader::constant(const proto::Value& value, const std::string& name) {
  if (!value.type().has_tensortype()) fail_text("holds a constant that is no tensor");
  const proto::TensorType& type = value.type().tensortype();
  Item made{.name = name, .dtype = type.datatype()};
  std::uint64_t elements = 1;
  if (type.dimensions_size() > kMostAxes) fail_text(fmt::format("has {} axes", type.dimensions_size()));
  for (const proto::Dimension& dimension : type.dimensions()) {
    const std::uint64_t size = dimension.constant().size();
    const auto product = checked_multiply(elements, size);
    if (!dimension.has_constant() || size > kLargestSize || !product || *product > kLargestSize) {
      fail_text("is a constant of no sound shape");
    }
    elements = *product;
    made.shape.emplace_back(static_cast<std::int64_t>(size));
  }
  if (value.has_blobfilevalue()) {
    if (made.dtype != proto::FLOAT16 && made.dtype != proto::FLOAT32) {
      fail_text(fmt::format("weights of type {} are not read", proto::DataType_Name(made.dtype)));
    }
    const std::string unique = graph_name(name);
    weights_[unique] = {.file = value.blobfilevalue().filename(),
                        .offset = value.blobfilevalue().offset(),
                        .dtype = made.dtype,
                        .elements = elements};
    made.value = b_.weight(unique, made.shape);
    return made;
  }
  const proto::TensorValue& tensor = value.immediatevalue().tensor();
  if (tensor.has_strings()) {
    if (tensor.strings().values_size() > 0) made.text = tensor.strings().values(0);
    return made;
  }
  std::vector<double> numbers;
  const auto take = [&](const auto& values) { numbers.assign(values.begin(), values.end()); };
  if (tensor.has_floats()) take(tensor.floats().values());
  if (tensor.has_ints()) take(tensor.ints().values());
  if (tensor.has_bools()) take(tensor.bools().values());
  if (tensor.has_longints()) take(tensor.longints().values());
  if (tensor.has_doubles()) take(tensor.doubles().values());
  if (tensor.has_bytes()) {
    const std::string& bytes = tensor.bytes().values();
    const std::size_t width = made.dtype == proto::FLOAT16 ? 2 : 1;
    const bool is_signed = made.dtype == proto::INT8;
    if (width == 1 && !is_signed && made.dtype != proto::UINT8) {
      fail_text(fmt::format("constants of type {} are not read", proto::DataType_Name(made.dtype)));
    }
    for (std::size_t i = 0; i + width <= bytes.size(); i += width) {
      std::uint16_t half = 0;
      std::memcpy(&half, &bytes[i], width);
      if (width == 2) {
        numbers.push_back(static_cast<double>(tensor::f16_to_f32(half)));
      } else {
        numbers.push_back(is_signed ? static_cast<std::int8_t>(half) : half);
      }
    }
  }
  if (numbers.size() != elements)
    fail_text(fmt::format("holds {} numbers for a shape of {}", numbers.size(), elements));
  if (is_integer(made.dtype) && made.shape.size() <= 1) {
    made.sizes.emplace();
    for (const double number : numbers) made.sizes->emplace_back(static_cast<std::int64_t>(number));
  }
  made.numbers = std::move(numbers);
  return made;
}

// Not taken in the graph.
std::string ProgramReader::graph_name(const std::string& name) const {
  std::string unique = name.empty() ? "constant" : name;
  while (b_.graph().find(unique) >= 0 || weights_.contains(unique)) unique += "_";
  return unique;
}

// --- making values ---

ValueId ProgramReader::tensor(Item& of) {
  if (of.is_state) fail_text(fmt::format("uses the state {} as a tensor", cut(of.name)));
  if (of.value >= 0) return of.value;
  if (of.numbers) {
    return of.value =
               b_.constant(fmt::format("constant.{}", constants_++), of.shape, *of.numbers, graph_type(of.dtype));
  }
  if (of.sizes) return of.value = size_tensor(*of.sizes, of.shape.empty());
  fail_text(fmt::format("uses {} as a tensor", cut(of.name)));
}

// i32, [count] or without axes.
ValueId ProgramReader::size_tensor(const std::vector<Dim>& dims, bool scalar_wanted) {
  const bool known = std::ranges::all_of(dims, &Dim::is_constant);
  if (known) {
    std::vector<double> numbers;
    for (const Dim& dim : dims) numbers.push_back(static_cast<double>(dim.constant()));
    const Shape of = scalar_wanted ? Shape{} : Shape{static_cast<std::int64_t>(dims.size())};
    return b_.constant(fmt::format("constant.{}", constants_++), of, std::move(numbers), DType::i32);
  }
  std::vector<ValueId> parts;
  for (const Dim& dim : dims) {
    const ValueId numbers = emit(Op::range, {}, graph::ShapeAttributes{.shape = {dim + 1}});
    parts.push_back(slice(numbers, 0, dim, dim + 1));
  }
  if (scalar_wanted) return reshape(parts.at(0), {});
  return parts.size() == 1 ? parts.front() : emit(Op::concat, parts, graph::AxisAttributes{.axis = 0});
}

ValueId ProgramReader::scalar(double number, DType of) {
  const auto [known, is_new] = scalars_.try_emplace({number, of}, -1);
  if (is_new) known->second = b_.constant(fmt::format("constant.{}", constants_++), {}, {number}, of);
  return known->second;
}

ValueId ProgramReader::emit(Op op, std::vector<ValueId> inputs, graph::Attributes attributes) {
  return b_.emit(op, std::move(inputs), std::move(attributes)).front();
}

ValueId ProgramReader::reshape(ValueId x, Shape to) {
  return emit(Op::reshape, {x}, graph::ShapeAttributes{.shape = std::move(to)});
}

ValueId ProgramReader::transpose(ValueId x, std::vector<int> axes) {
  return emit(Op::transpose, {x}, graph::PermutationAttributes{.axes = std::move(axes)});
}

ValueId ProgramReader::swap_last(ValueId x) {
  std::vector<int> axes(shape(x).size());
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int>(i);
  if (axes.size() < 2) fail_text("transposes a tensor of one axis");
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return transpose(x, std::move(axes));
}

ValueId ProgramReader::slice(ValueId x, int axis, const Dim& begin, const Dim& end) {
  return emit(Op::slice, {x}, graph::SliceAttributes{.axis = axis, .begin = begin, .end = end});
}

ValueId ProgramReader::as_dtype(ValueId x, DType to) {
  return dtype(x) == to ? x : emit(Op::cast, {x}, graph::CastAttributes{.dtype = to});
}

int ProgramReader::axis_of(std::int64_t axis, std::size_t rank) const {
  const auto axes = static_cast<std::int64_t>(rank);
  if (axis < -axes || axis >= axes) fail_text(fmt::format("axis {} of {}", axis, axes));
  return static_cast<int>(axis < 0 ? axis + axes : axis);
}

void ProgramReader::set(const proto::Operation& op, ValueId value, int output) {
  if (output >= op.outputs_size()) fail_text(fmt::format("{} has {} outputs", op.type(), op.outputs_size()));
  const proto::NamedValueType& declared = op.outputs(output);
  Item made{.name = declared.name(), .dtype = declared.type().tensortype().datatype(), .shape = shape(value)};
  if (!declared.type().has_tensortype() || graph_type(made.dtype) != dtype(value)) {
    fail_text(fmt::format("{} makes {}, and is declared as {}", op.type(), tensor::name(dtype(value)),
                          proto::DataType_Name(made.dtype)));
  }
  made.value = value;
  if (made.dtype == proto::FLOAT32 && b_.graph().value(value).kind == graph::ValueKind::result) b_.set_island(value);
  items_.emplace(made.name, std::move(made));
}

void ProgramReader::set_sizes(const proto::Operation& op, std::vector<Dim> of) {
  Item made{.name = op.outputs(0).name(), .dtype = op.outputs(0).type().tensortype().datatype()};
  if (op.outputs(0).type().tensortype().rank() > 0 || of.size() != 1) {
    made.shape = {static_cast<std::int64_t>(of.size())};
  }
  made.sizes = std::move(of);
  items_.emplace(made.name, std::move(made));
}

}  // namespace pastkv::targets::coreml
