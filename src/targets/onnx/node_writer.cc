#include "targets/onnx/node_writer.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "tensor/codec.h"

namespace pastkv::targets {

using graph::Dim;
using graph::Symbol;
using onnx::TensorProto;

namespace {

template <typename Number>
void append(std::string& bytes, Number number) {
  char raw[sizeof(Number)];
  std::memcpy(raw, &number, sizeof(Number));
  bytes.append(raw, sizeof(Number));
}

void set(onnx::NodeProto& node, const OnnxAttribute& from) {
  onnx::AttributeProto& to = *node.add_attribute();
  to.set_name(from.name);
  to.set_type(from.type);
  if (from.type == onnx::AttributeProto::INT) to.set_i(from.whole[0]);
  if (from.type == onnx::AttributeProto::FLOAT) to.set_f(from.fraction);
  if (from.type == onnx::AttributeProto::STRING) to.set_s(from.text);
  if (from.type == onnx::AttributeProto::INTS) {
    for (const std::int64_t number : from.whole) to.add_ints(number);
  }
}

}  // namespace

std::string NodeWriter::fresh(std::string_view stem) {
  auto count = counts_.find(stem);
  if (count == counts_.end()) count = counts_.emplace(stem, 0).first;
  std::string name;
  do {
    name = fmt::format("{}_{}", stem, count->second++);
  } while (!taken_.insert(name).second);
  return name;
}

std::string NodeWriter::node(std::string_view op, const std::vector<std::string>& inputs,
                             const OnnxAttributes& attributes, const std::string& wanted) {
  std::string out = wanted.empty() ? fresh(op) : wanted;
  node(op, "", inputs, {out}, attributes);
  return out;
}

void NodeWriter::node(std::string_view op, std::string_view domain, const std::vector<std::string>& inputs,
                      const std::vector<std::string>& outputs, const OnnxAttributes& attributes) {
  onnx::NodeProto& node = *graph_.add_node();
  node.set_op_type(std::string(op));
  node.set_name("make_" + outputs.front());
  if (!domain.empty()) node.set_domain(std::string(domain));
  for (const std::string& input : inputs) node.add_input(input);
  for (const std::string& output : outputs) node.add_output(output);
  for (const OnnxAttribute& attribute : attributes) set(node, attribute);
}

std::string NodeWriter::raw(std::int32_t type, const std::vector<std::int64_t>& shape, std::string bytes,
                            std::string_view stem) {
  const std::string key = fmt::format("{} {} ", type, fmt::join(shape, ",")) + bytes;
  const auto [known, is_new] = constants_.try_emplace(key);
  if (!is_new) return known->second;
  TensorProto& tensor = *graph_.add_initializer();
  known->second = fresh(stem);
  tensor.set_name(known->second);
  tensor.set_data_type(type);
  for (const std::int64_t size : shape) tensor.add_dims(size);
  tensor.set_raw_data(std::move(bytes));
  return known->second;
}

std::string NodeWriter::integers(const std::vector<std::int64_t>& numbers, const std::vector<std::int64_t>& shape) {
  std::string bytes;
  for (const std::int64_t number : numbers) append(bytes, number);
  return raw(TensorProto::INT64, shape, std::move(bytes), "integers");
}

std::string NodeWriter::integers(const std::vector<std::int64_t>& numbers) {
  return integers(numbers, {static_cast<std::int64_t>(numbers.size())});
}

std::string NodeWriter::floats(const std::vector<double>& numbers, const std::vector<std::int64_t>& shape, bool f16) {
  std::string bytes;
  for (const double number : numbers) {
    const auto narrow = static_cast<float>(number);
    f16 ? append(bytes, tensor::f32_to_f16(narrow)) : append(bytes, narrow);
  }
  return raw(f16 ? TensorProto::FLOAT16 : TensorProto::FLOAT, shape, std::move(bytes), "numbers");
}

// The total length is read off the mask, so that it may differ from what a shared cache buffer could hold.
std::string NodeWriter::size_of(Symbol symbol) {
  const auto shape = [&](const char* of, int axis) {
    return node("Shape", {of}, {{"start", axis}, {"end", axis + 1}});
  };
  switch (symbol) {
    case Symbol::batch:
      return shape("input_ids", 0);
    case Symbol::query:
      return shape("input_ids", 1);
    case Symbol::context:
      return shape("attention_mask", 1);
    default:
      throw std::logic_error("a size that no input of an ONNX decoder has");
  }
}

std::string NodeWriter::dim(const Dim& dim) {
  if (dim.is_constant()) return integers({dim.constant()});
  const auto [known, is_new] = dims_.try_emplace(dim.text());
  if (!is_new) return known->second;
  if (dim.coefficient(Symbol::rows) != 0) throw std::logic_error("a size that depends on the rows of logits");

  // past = total - query
  const std::int64_t total = dim.coefficient(Symbol::past) + dim.coefficient(Symbol::context);
  const std::int64_t query = dim.coefficient(Symbol::query) - dim.coefficient(Symbol::past);
  std::optional<std::string> sum;
  const auto add = [&](std::int64_t factor, auto&& term) {
    if (factor == 0) return;
    if (sum && factor == -1) {
      sum = node("Sub", {*sum, term()});
      return;
    }
    std::string scaled = term();
    if (factor != 1) scaled = node("Mul", {scaled, integers({factor})});
    sum = sum ? node("Add", {*sum, scaled}) : scaled;
  };
  const auto symbol = [&](Symbol of) {
    return [this, of] {
      const Dim alone(of);
      const auto [made, is_first] = dims_.try_emplace("size of " + alone.text());
      if (is_first) made->second = size_of(of);
      return made->second;
    };
  };
  add(dim.coefficient(Symbol::batch), symbol(Symbol::batch));
  add(total, symbol(Symbol::context));
  add(query, symbol(Symbol::query));
  if (dim.constant() != 0) sum = node("Add", {*sum, integers({dim.constant()})});
  return dims_[dim.text()] = *sum;
}

std::string NodeWriter::exact_shape(const graph::Shape& shape) {
  const auto [known, is_new] = shapes_.try_emplace(graph::text(shape));
  if (!is_new) return known->second;
  std::vector<std::string> parts;
  std::vector<std::int64_t> run;  // of sizes that are numbers
  const auto end_run = [&] {
    if (!run.empty()) parts.push_back(integers(run));
    run.clear();
  };
  for (const Dim& size : shape) {
    if (size.is_constant()) {
      run.push_back(size.constant());
    } else {
      end_run();
      parts.push_back(dim(size));
    }
  }
  end_run();
  if (shape.empty()) parts.push_back(integers({}));
  return shapes_[graph::text(shape)] = parts.size() == 1 ? parts[0] : node("Concat", parts, {{"axis", 0}});
}

std::string NodeWriter::reshape_target(const graph::Shape& shape) {
  graph::Shape open = shape;
  for (std::size_t axis = open.size(); axis-- > 0;) {
    if (open[axis].is_constant()) continue;
    open[axis] = -1;
    break;
  }
  return exact_shape(open);
}

}  // namespace pastkv::targets
