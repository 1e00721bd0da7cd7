#include "targets/onnx/importer.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "base/checked.h"
#include "base/error.h"

namespace pastkv::targets {

using formats::OnnxTensor;
using graph::Dim;
using graph::Op;
using graph::Shape;
using graph::Symbol;
using graph::ValueId;
using onnx::TensorProto;
using tensor::DType;

namespace {

constexpr std::int64_t kFewNumbers = 16;           // what is no more is a constant of the graph
constexpr std::int64_t kMostSizes = 1024;          // whole numbers that may be sizes
constexpr std::uint64_t kMostWeight = 1ull << 33;  // numbers of one weight

std::string cut(const std::string& name) {
  return name.size() <= 80 ? name : name.substr(0, 77) + "...";
}

bool is_external(const TensorProto& tensor) {
  return tensor.data_location() == TensorProto::EXTERNAL;
}

DType plain_type(std::int32_t type) {
  switch (type) {
    case TensorProto::BOOL:
      return DType::boolean;
    case TensorProto::FLOAT:
    case TensorProto::FLOAT16:
    case TensorProto::BFLOAT16:
    case TensorProto::DOUBLE:
      return DType::f32;
    default:
      return DType::i64;
  }
}

// "past_key_values.3.key" -> 3, key. Nothing when the name has no layer or no role.
std::optional<std::pair<int, graph::StateRole>> cache_place(const std::string& name) {
  const std::size_t digit = name.find_first_of("0123456789");
  if (digit == std::string::npos) return std::nullopt;
  const std::size_t end = std::min(name.find_first_not_of("0123456789", digit), name.size());
  if (end - digit > 4) return std::nullopt;
  const int layer = std::stoi(name.substr(digit, end - digit));
  const std::string rest = name.substr(end);
  if (rest.find("key") != std::string::npos) return std::pair{layer, graph::StateRole::key};
  if (rest.find("value") != std::string::npos) return std::pair{layer, graph::StateRole::value};
  return std::nullopt;
}

}  // namespace

OnnxImporter::OnnxImporter(const formats::OnnxFile& file, std::int64_t head_width)
    : file_(file), head_width_(head_width), b_("onnx") {}

void OnnxImporter::refuse(const std::string& reason) const {
  std::string place;
  if (at_ != nullptr) place = fmt::format("node {} ({})", cut(at_->name()), cut(at_->op_type()));
  throw Error({.file = file_.path().string(), .place = place, .reason = reason});
}

void OnnxImporter::run(ImportedModel& out) try {
  if (file_.model().functions_size() > 0) refuse("has functions of its own, which are not read");
  for (const TensorProto& tensor : file_.model().graph().initializer()) initializers_[tensor.name()] = &tensor;
  for (const onnx::NodeProto& node : file_.model().graph().node()) {
    const onnx::AttributeProto* value = node.op_type() == "Constant" ? attribute(node, "value") : nullptr;
    if (value != nullptr && node.output_size() == 1) constants_[node.output(0)] = &value->t();
  }
  read_inputs();
  find_presents();
  for (const onnx::NodeProto* node : ordered()) import(*node);
  at_ = nullptr;
  finish(out);
} catch (const std::logic_error& misfit) {  // of inputs and outputs
  refuse(misfit.what());
} catch (const std::overflow_error&) {
  refuse("a size leaves 64 bits");
}

// --- the border ---

void OnnxImporter::read_inputs() {
  const Dim total = Dim(Symbol::past) + Symbol::query;
  for (const onnx::ValueInfoProto& input : file_.model().graph().input()) {
    const std::string& name = input.name();
    const onnx::TypeProto::Tensor& type = input.type().tensor_type();
    const auto axes = static_cast<std::size_t>(type.shape().dim_size());
    if (name == "num_logits_to_keep") {
      items_[name] = {.id = -1, .shape = Shape(axes, Dim(1)), .dtype = DType::i64, .sizes = {{Dim(Symbol::rows)}}};
    } else if (initializers_.contains(name)) {
      continue;  // a weight that a caller might replace
    } else if (cache_place(name) && axes == 4) {
      const std::int64_t width = type.shape().dim(3).has_dim_value() ? type.shape().dim(3).dim_value() : head_width_;
      add_cache(input, {Dim(1), type.shape().dim(1).dim_value(), Symbol::past, width});
    } else if ((name == "input_ids" || name == "position_ids" || name == "attention_mask") && axes == 2) {
      const Shape shape = {1, name == "attention_mask" ? total : Dim(Symbol::query)};
      items_[name] = {.id = b_.input(name, DType::i64, shape), .shape = shape, .dtype = DType::i64};
    } else {
      throw Error({.file = file_.path().string(),
                   .place = "input " + cut(name),
                   .reason = fmt::format("of {} axes is none that a decoder with a cache has", axes),
                   .remedy = "wanted: input_ids, attention_mask, position_ids, past_key_values.{i}.key and .value"});
    }
  }
  if (!items_.contains("input_ids")) refuse("has no input input_ids [batch, query]");
  if (caches_.empty()) refuse("has no cache: no input past_key_values.{i}.key");
}

void OnnxImporter::add_cache(const onnx::ValueInfoProto& input, const Shape& shape) {
  const auto [layer, role] = *cache_place(input.name());
  if (shape[1].constant() < 1 || shape[3].constant() < 1) {
    throw Error({.file = file_.path().string(),
                 .place = "input " + cut(input.name()),
                 .reason = "does not say how many heads it has, and how wide they are"});
  }
  const ValueId state = b_.state(fmt::format("cache.{}.{}", layer, graph::name(role)), role, layer, shape[1].constant(),
                                 shape[3].constant(), 0, Dim(1));
  items_[input.name()] = {
      .id = -1, .shape = shape, .dtype = DType::f32, .sizes = {}, .state = static_cast<int>(caches_.size())};
  caches_.push_back({.past = input.name(), .present = "", .state = state});
}

void OnnxImporter::find_presents() {
  for (const onnx::ValueInfoProto& output : file_.model().graph().output()) {
    const auto place = cache_place(output.name());
    if (!place) continue;
    for (Cache& cache : caches_) {
      if (cache_place(cache.past) == place) cache.present = output.name();
    }
  }
  for (const Cache& cache : caches_) {
    if (cache.present.empty()) refuse(fmt::format("no output is the present of '{}'", cut(cache.past)));
  }
}

// Nodes so that each comes after those that it reads from; a file may hold them in any order. Throws on a cycle.
std::vector<const onnx::NodeProto*> OnnxImporter::ordered() const {
  const auto& nodes = file_.model().graph().node();
  std::map<std::string, int> makers;
  for (int i = 0; i < nodes.size(); ++i) {
    for (const std::string& output : nodes[i].output()) {
      if (!output.empty() && !makers.emplace(output, i).second) refuse(fmt::format("'{}' is made twice", cut(output)));
    }
  }
  std::vector<const onnx::NodeProto*> out;
  std::vector<int> state(static_cast<std::size_t>(nodes.size()), 0);  // 1: begun, 2: done
  std::vector<std::pair<int, int>> open;                              // node, next input
  for (int root = 0; root < nodes.size(); ++root) {
    if (state[static_cast<std::size_t>(root)] != 0) continue;
    open.emplace_back(root, 0);
    state[static_cast<std::size_t>(root)] = 1;
    while (!open.empty()) {
      auto& [node, next] = open.back();
      if (next == nodes[node].input_size()) {
        state[static_cast<std::size_t>(node)] = 2;
        out.push_back(&nodes[node]);
        open.pop_back();
        continue;
      }
      const auto maker = makers.find(nodes[node].input(next++));
      if (maker == makers.end()) continue;
      int& found = state[static_cast<std::size_t>(maker->second)];
      if (found == 1) refuse(fmt::format("'{}' is computed from itself: the nodes go in a circle", cut(maker->first)));
      if (found == 0) {
        found = 1;
        open.emplace_back(maker->second, 0);
      }
    }
  }
  return out;
}

void OnnxImporter::import(const onnx::NodeProto& node) try {
  at_ = &node;
  const std::string& domain = node.domain();
  const bool known_domain = domain.empty() || domain == "ai.onnx" || domain == "com.microsoft";
  const auto handler = handlers().find(node.op_type());
  if (!known_domain || handler == handlers().end()) {
    refuse(
        fmt::format("operation {}{}{} is not known here", cut(domain), domain.empty() ? "" : ".", cut(node.op_type())));
  }
  if (node.output_size() < 1) refuse("has no output");
  if (!known_sizes(node)) (this->*handler->second)(node);
} catch (const std::logic_error& misfit) {  // of the graph's own rules: shapes and types
  refuse(misfit.what());
} catch (const std::overflow_error&) {
  refuse("a size leaves 64 bits");
} catch (const std::bad_variant_access&) {
  refuse("a size is wanted where none is");
}

void OnnxImporter::finish(ImportedModel& out) {
  for (Cache& cache : caches_) {
    if (cache.written) continue;
    emit(Op::state_write, {cache.state, id(item(cache.present))});
  }
  ValueId logits = id(item("logits"));
  if (shape(logits).size() != 3) refuse(fmt::format("logits have the shape {}", graph::text(shape(logits))));
  if (shape(logits)[1] == Dim(Symbol::query)) logits = emit(Op::pick_rows, {logits});
  if (b_.graph().value(logits).kind != graph::ValueKind::result) logits = emit(Op::cast, {logits});
  if (b_.graph().find("logits") < 0) b_.output(logits, "logits");
  out.vocab = shape(logits)[2].is_constant() ? shape(logits)[2].constant() : 0;
  out.graph = b_.finish();
  out.weights = [loaders = std::move(loaders_)](const graph::Value& weight) {
    const auto found = loaders.find(weight.name);
    if (found == loaders.end()) throw Error({.place = weight.name, .reason = "is no weight of the file"});
    return found->second();
  };
  std::ranges::stable_sort(stored_, std::greater{}, &StoredWeights::bytes);
  out.stored = std::move(stored_);
  out.parameters = parameters_;
}

// --- values ---

const OnnxItem& OnnxImporter::item(const std::string& name) {
  if (const auto known = items_.find(name); known != items_.end()) return known->second;
  const auto found = initializers_.find(name);
  if (found == initializers_.end()) refuse(fmt::format("'{}' is made nowhere", cut(name)));
  return items_.emplace(name, initializer(file_.tensor(*found->second), is_external(*found->second))).first->second;
}

const OnnxItem& OnnxImporter::in(const onnx::NodeProto& node, int i) {
  if (!has(node, i)) refuse(fmt::format("input {} is missing", i));
  return item(node.input(i));
}

bool OnnxImporter::is_constant(const std::string& name) const {
  return initializers_.contains(name) || constants_.contains(name);
}

OnnxTensor OnnxImporter::constant_in(const onnx::NodeProto& node, int i) const {
  if (!has(node, i)) refuse(fmt::format("input {} is missing", i));
  if (const auto found = initializers_.find(node.input(i)); found != initializers_.end()) {
    return file_.tensor(*found->second);
  }
  const auto found = constants_.find(node.input(i));
  if (found == constants_.end()) refuse(fmt::format("its input '{}' must be constant", cut(node.input(i))));
  return file_.tensor(*found->second);
}

OnnxItem OnnxImporter::initializer(const OnnxTensor& tensor, bool external) {
  const DType type = plain_type(tensor.type);
  const std::int64_t count = tensor.elements();
  const Shape dims(tensor.shape.begin(), tensor.shape.end());
  if (type == DType::i64 && count <= kMostSizes && formats::onnx_bits(tensor.type) >= 32) {
    std::vector<Dim> sizes;
    for (std::int64_t i = 0; i < count; ++i) {  // not by way of double, which holds no whole number above 2^53
      const double number = formats::onnx_numbers(tensor, i, 1)[0];
      const bool far = number >= 9.2e18;
      sizes.emplace_back(far ? std::int64_t{1} << 62 : static_cast<std::int64_t>(number));
    }
    return {.id = -1, .shape = dims, .dtype = type, .sizes = std::move(sizes)};
  }
  if (type == DType::boolean || (count <= kFewNumbers && !external)) {
    return {.id = constant(dims, formats::onnx_numbers(tensor, 0, count), type), .shape = dims, .dtype = type};
  }
  // Whole numbers of few bits are read as fractions: nothing but arithmetic is done with them.
  const ValueId made = weight(
      tensor.name.empty() ? fmt::format("constant.{}", numbered_++) : tensor.name, tensor.shape,
      [tensor] {
        const std::vector<double> numbers = formats::onnx_numbers(tensor, 0, tensor.elements());
        return std::vector<float>(numbers.begin(), numbers.end());
      },
      {tensor}, formats::onnx_type_name(tensor.type), formats::onnx_bits(tensor.type));
  return {.id = made, .shape = dims, .dtype = DType::f32};
}

ValueId OnnxImporter::weight(const std::string& name, std::vector<std::int64_t> of, Loader load,
                             const std::vector<OnnxTensor>& tensors, const std::string& type, int bits) {
  std::uint64_t count = 1;
  for (const std::int64_t size : of) {
    const auto product = checked_multiply(count, static_cast<std::uint64_t>(size));
    if (size < 1 || !product || *product > kMostWeight)
      refuse(fmt::format("weight '{}' has no usable size", cut(name)));
    count = *product;
  }
  std::string unique = name;
  while (b_.graph().find(unique) >= 0) unique = fmt::format("{}.{}", name, numbered_++);
  loaders_[unique] = std::move(load);
  auto known = std::ranges::find(stored_, type, &StoredWeights::type);
  if (known == stored_.end()) {
    stored_.push_back({.type = type, .bits = bits});
    known = stored_.end() - 1;
  }
  ++known->tensors;
  for (const OnnxTensor& tensor : tensors) known->bytes += tensor.bytes.size();
  parameters_ += count;
  return b_.weight(unique, {of.begin(), of.end()});
}

ValueId OnnxImporter::id(const Item& item) {
  if (item.id >= 0) return item.id;
  if (item.state >= 0) {
    Item& known = items_.at(caches_[static_cast<std::size_t>(item.state)].past);
    if (known.id < 0) known.id = emit(Op::state_read, {caches_[static_cast<std::size_t>(item.state)].state});
    return known.id;
  }
  const std::vector<Dim>& sizes = *item.sizes;
  if (std::ranges::all_of(sizes, &Dim::is_constant)) {
    std::vector<double> numbers;
    for (const Dim& dim : sizes) numbers.push_back(static_cast<double>(dim.constant()));
    return constant(item.shape, std::move(numbers), item.dtype);
  }
  std::vector<ValueId> parts;
  for (const Dim& dim : sizes) parts.push_back(value_of_size(dim));
  const ValueId all = parts.size() == 1 ? parts[0] : emit(Op::concat, parts, graph::AxisAttributes{.axis = 0});
  return shape(all) == item.shape ? all : emit(Op::reshape, {all}, graph::ShapeAttributes{.shape = item.shape});
}

ValueId OnnxImporter::constant(Shape of, std::vector<double> data, DType type) {
  std::string name;
  do {
    name = fmt::format("constant_{}", numbered_++);
  } while (b_.graph().find(name) >= 0);
  return b_.constant(name, std::move(of), std::move(data), type);
}

ValueId OnnxImporter::number(double value, DType type) {
  return constant({}, {value}, type);
}

ValueId OnnxImporter::emit(Op op, std::vector<ValueId> inputs, graph::Attributes attributes) {
  return b_.emit(op, std::move(inputs), std::move(attributes)).front();
}

// A number that the graph's rules call i32 is whole like any other here.
void OnnxImporter::give(const onnx::NodeProto& node, int output, ValueId made) {
  if (output >= node.output_size() || node.output(output).empty()) return;
  if (dtype(made) == DType::i32) made = emit(Op::cast, {made}, graph::CastAttributes{.dtype = DType::i64});
  items_[node.output(output)] = {.id = made, .shape = shape(made), .dtype = dtype(made)};
}

const onnx::AttributeProto* OnnxImporter::attribute(const onnx::NodeProto& node, std::string_view name) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

std::int64_t OnnxImporter::whole(const onnx::NodeProto& node, std::string_view name, std::int64_t otherwise) {
  const onnx::AttributeProto* found = attribute(node, name);
  return found == nullptr ? otherwise : found->i();
}

float OnnxImporter::fraction(const onnx::NodeProto& node, std::string_view name, float otherwise) {
  const onnx::AttributeProto* found = attribute(node, name);
  return found == nullptr ? otherwise : found->f();
}

std::string OnnxImporter::text(const onnx::NodeProto& node, std::string_view name) {
  const onnx::AttributeProto* found = attribute(node, name);
  return found == nullptr ? "" : found->s();
}

}  // namespace pastkv::targets
