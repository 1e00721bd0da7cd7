#include "targets/coreml/mil.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include "formats/coreml/package.h"
#include "tensor/codec.h"

namespace pastkv::targets::coreml {
namespace {

constexpr const char* kOpset = "CoreML8";

proto::Value text_value(std::string_view text) {
  proto::Value value;
  *value.mutable_type() = value_type({.dtype = proto::STRING, .shape = {}});
  value.mutable_immediatevalue()->mutable_tensor()->mutable_strings()->add_values(text.data(), text.size());
  return value;
}

std::string identifier(std::string_view hint) {
  std::string name(hint);
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name.front())) != 0) name.insert(0, "_");
  return name;
}

}  // namespace

proto::ValueType value_type(const TensorType& type) {
  proto::ValueType out;
  proto::TensorType& tensor = *out.mutable_tensortype();
  tensor.set_datatype(type.dtype);
  tensor.set_rank(static_cast<std::int64_t>(type.shape.size()));
  for (const std::int64_t size : type.shape) {
    proto::Dimension& dimension = *tensor.add_dimensions();
    if (size == kAnySize) {
      dimension.mutable_unknown()->set_variadic(false);
    } else {
      dimension.mutable_constant()->set_size(static_cast<std::uint64_t>(size));
    }
  }
  return out;
}

FunctionWriter::FunctionWriter(proto::Function& function)
    : function_(function), block_((*function.mutable_block_specializations())[kOpset]) {
  function_.set_opset(kOpset);
}

std::string FunctionWriter::unique(std::string_view hint) {
  const std::string base = identifier(hint);
  std::string name = base;
  while (!names_.insert(name).second) name = fmt::format("{}_{}", base, counts_[base]++);
  return name;
}

Tensor FunctionWriter::input(const std::string& name, TensorType type) {
  proto::NamedValueType& input = *function_.add_inputs();
  input.set_name(name);
  *input.mutable_type() = value_type(type);
  names_.insert(name);
  return {.name = name, .type = std::move(type)};
}

Tensor FunctionWriter::state(const std::string& name, TensorType type) {
  proto::NamedValueType& input = *function_.add_inputs();
  input.set_name(name);
  *input.mutable_type()->mutable_statetype()->mutable_wrappedtype() = value_type(type);
  names_.insert(name);
  return {.name = name, .type = std::move(type)};
}

Tensor FunctionWriter::constant(const std::string& key, std::string_view hint, const proto::Value& value,
                                TensorType type) {
  const auto known = constants_.find(key);
  if (known != constants_.end()) return known->second;
  const std::string name = unique(hint);
  proto::Operation& made = operation("const", name, {});
  proto::Value& val = (*made.mutable_attributes())["val"];
  val = value;
  *val.mutable_type() = value_type(type);
  proto::NamedValueType& output = *made.add_outputs();
  output.set_name(name);
  *output.mutable_type() = val.type();
  return constants_.emplace(key, Tensor{.name = name, .type = std::move(type)}).first->second;
}

Tensor FunctionWriter::integer(std::int64_t number) {
  proto::Value value;
  value.mutable_immediatevalue()->mutable_tensor()->mutable_ints()->add_values(static_cast<std::int32_t>(number));
  return constant(fmt::format("int {}", number), fmt::format("int_{}", number), value,
                  {.dtype = proto::INT32, .shape = {}});
}

Tensor FunctionWriter::integers(const std::vector<std::int64_t>& numbers) {
  proto::Value value;
  auto& ints = *value.mutable_immediatevalue()->mutable_tensor()->mutable_ints();
  for (const std::int64_t number : numbers) ints.add_values(static_cast<std::int32_t>(number));
  return constant(fmt::format("ints {}", fmt::join(numbers, " ")), fmt::format("ints_{}", fmt::join(numbers, "_")),
                  value, {.dtype = proto::INT32, .shape = {static_cast<std::int64_t>(numbers.size())}});
}

Tensor FunctionWriter::boolean(bool held) {
  proto::Value value;
  value.mutable_immediatevalue()->mutable_tensor()->mutable_bools()->add_values(held);
  return constant(fmt::format("bool {}", held), held ? "yes" : "no", value, {.dtype = proto::BOOL, .shape = {}});
}

Tensor FunctionWriter::booleans(const std::vector<bool>& values) {
  proto::Value value;
  auto& bools = *value.mutable_immediatevalue()->mutable_tensor()->mutable_bools();
  std::string key = "bools";
  for (const bool held : values) {
    bools.add_values(held);
    key += held ? " 1" : " 0";
  }
  return constant(key, key, value, {.dtype = proto::BOOL, .shape = {static_cast<std::int64_t>(values.size())}});
}

Tensor FunctionWriter::text(const std::string& held) {
  return constant("text " + held, "text_" + held, text_value(held), {.dtype = proto::STRING, .shape = {}});
}

Tensor FunctionWriter::number(double value, proto::DataType dtype) {
  return numbers({value}, {}, dtype);
}

Tensor FunctionWriter::numbers(const std::vector<double>& values, std::vector<std::int64_t> shape,
                               proto::DataType dtype) {
  proto::Value value;
  proto::TensorValue& tensor = *value.mutable_immediatevalue()->mutable_tensor();
  if (dtype == proto::FLOAT16) {
    std::string& bytes = *tensor.mutable_bytes()->mutable_values();
    for (const double number : values) {
      const std::uint16_t half = tensor::f32_to_f16(static_cast<float>(number));
      bytes += {static_cast<char>(half & 0xFF), static_cast<char>(half >> 8)};
    }
  } else {
    for (const double number : values) tensor.mutable_floats()->add_values(static_cast<float>(number));
  }
  const std::string key =
      fmt::format("numbers {} [{}] {}", static_cast<int>(dtype), fmt::join(shape, " "), tensor.SerializeAsString());
  return constant(key, shape.empty() ? "number" : "numbers", value, {.dtype = dtype, .shape = std::move(shape)});
}

Tensor FunctionWriter::weight(std::string_view name, TensorType type, std::uint64_t offset) {
  proto::Value value;
  value.mutable_blobfilevalue()->set_filename(formats::coreml::kWeightFile);
  value.mutable_blobfilevalue()->set_offset(offset);
  const std::string key = fmt::format("blob {} [{}]", offset, fmt::join(type.shape, " "));
  return constant(key, name, value, std::move(type));
}

proto::Operation& FunctionWriter::operation(const std::string& type, std::string_view name,
                                            const std::vector<Operand>& operands) {
  proto::Operation& made = *block_.add_operations();
  made.set_type(type);
  for (const Operand& operand : operands) {
    proto::Argument& argument = (*made.mutable_inputs())[std::string(operand.parameter)];
    for (const Tensor& value : operand.values) argument.add_arguments()->set_name(value.name);
  }
  (*made.mutable_attributes())["name"] = text_value(name);
  return made;
}

Tensor FunctionWriter::op(const std::string& type, const std::vector<Operand>& operands, TensorType result,
                          std::string_view hint) {
  return ops(type, operands, {std::move(result)}, hint).front();
}

std::vector<Tensor> FunctionWriter::ops(const std::string& type, const std::vector<Operand>& operands,
                                        const std::vector<TensorType>& results, std::string_view hint) {
  std::vector<Tensor> made;
  for (const TensorType& result : results) {
    made.push_back({.name = unique(hint.empty() ? std::string_view(type) : hint), .type = result});
  }
  proto::Operation& operation_made = operation(type, made.front().name, operands);
  for (const Tensor& tensor : made) {
    proto::NamedValueType& output = *operation_made.add_outputs();
    output.set_name(tensor.name);
    *output.mutable_type() = value_type(tensor.type);
  }
  return made;
}

void FunctionWriter::write_state(const Tensor& state, const Tensor& contents) {
  operation("write_state", unique("write_" + state.name), {{"input", state}, {"data", contents}});
}

void FunctionWriter::output(const Tensor& value, const std::string& name) {
  // An output is a value of the block: it gets its name by a copy of its own, so that no other name changes.
  proto::Operation& made = operation("identity", name, {{"x", value}});
  names_.insert(name);
  proto::NamedValueType& output = *made.add_outputs();
  output.set_name(name);
  *output.mutable_type() = value_type(value.type);
  block_.add_outputs(name);
}

}  // namespace pastkv::targets::coreml
