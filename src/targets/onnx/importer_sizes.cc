// What an exporter computes from shapes: whole numbers that are linear forms of the sizes, followed without a value.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "targets/onnx/importer.h"

namespace pastkv::targets {

using graph::Dim;
using graph::Op;
using graph::Shape;
using graph::Symbol;
using graph::ValueId;
using tensor::DType;

namespace {

std::optional<Dim> divided(const Dim& dim, std::int64_t by) {
  if (by == 0) return std::nullopt;
  if (dim.is_constant()) return Dim(dim.constant() / by);
  if (content(dim) % by != 0) return std::nullopt;
  Dim out = dim.constant() / by;
  for (const Symbol symbol : graph::kAllSymbols) out = out + Dim(symbol) * (dim.coefficient(symbol) / by);
  return out;
}

// A number times forms that nothing divides.
struct Product {
  std::int64_t factor = 1;
  std::vector<Dim> forms;

  void take(const Dim& dim) {
    const std::int64_t common = dim.is_constant() ? dim.constant() : content(dim);
    if (__builtin_mul_overflow(factor, common, &factor)) throw std::overflow_error("a shape's product");
    if (!dim.is_constant()) forms.push_back(*divided(dim, common));
  }
};

// Whether two sizes are equal, when that can be told for all calls.
std::optional<bool> equal(const Dim& a, const Dim& b) {
  if (a == b) return true;
  if ((a - b).is_constant()) return false;
  const auto negative = [](const Dim& dim) { return dim.is_constant() && dim.constant() < 0; };
  if (negative(a) || negative(b)) return false;
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<Dim>> OnnxImporter::sizes_of_binary(const std::string& op, const Item& a,
                                                              const Item& b) const {
  if (!a.sizes || !b.sizes) return std::nullopt;
  const std::size_t count = std::max(a.sizes->size(), b.sizes->size());
  if ((a.sizes->size() != count && a.sizes->size() != 1) || (b.sizes->size() != count && b.sizes->size() != 1)) {
    return std::nullopt;
  }
  std::vector<Dim> out;
  for (std::size_t i = 0; i < count; ++i) {
    const Dim& x = (*a.sizes)[a.sizes->size() == 1 ? 0 : i];
    const Dim& y = (*b.sizes)[b.sizes->size() == 1 ? 0 : i];
    if (op == "Add") {
      out.push_back(x + y);
    } else if (op == "Sub") {
      out.push_back(x - y);
    } else if (op == "Mul" && x.is_constant()) {
      out.push_back(y * x.constant());
    } else if (op == "Mul" && y.is_constant()) {
      out.push_back(x * y.constant());
    } else if (op == "Div" && y.is_constant() && divided(x, y.constant())) {
      out.push_back(*divided(x, y.constant()));
    } else if (op == "Equal" && equal(x, y)) {
      out.emplace_back(*equal(x, y) ? 1 : 0);
    } else {
      return std::nullopt;
    }
  }
  return out;
}

const std::vector<Dim>& OnnxImporter::sizes_in(const onnx::NodeProto& node, int i) {
  const Item& given = in(node, i);
  if (!given.sizes) refuse(fmt::format("its input '{}' must follow from shapes", node.input(i)));
  return *given.sizes;
}

std::vector<std::int64_t> OnnxImporter::numbers_in(const onnx::NodeProto& node, int i) {
  std::vector<std::int64_t> numbers;
  for (const Dim& dim : sizes_in(node, i)) {
    if (!dim.is_constant()) refuse(fmt::format("its input '{}' must be numbers", node.input(i)));
    numbers.push_back(dim.constant());
  }
  return numbers;
}

Shape OnnxImporter::reshaped(const Shape& from, const std::vector<Dim>& target, bool allow_zero) const {
  Shape out;
  std::optional<std::size_t> open;
  Product rest;
  for (std::size_t axis = 0; axis < target.size(); ++axis) {
    Dim dim = target[axis];
    if (dim == Dim(0) && !allow_zero) {
      if (axis >= from.size()) refuse(fmt::format("reshapes {} to more axes by a size of 0", graph::text(from)));
      dim = from[axis];
    }
    if (dim == Dim(-1)) {
      if (open) refuse("reshapes to a shape with two open sizes");
      open = axis;
    } else {
      rest.take(dim);
    }
    out.push_back(dim);
  }
  if (!open) return out;
  Product whole;
  for (const Dim& dim : from) whole.take(dim);
  for (const Dim& form : rest.forms) {
    const auto same = std::ranges::find(whole.forms, form);
    if (same == whole.forms.end()) refuse(fmt::format("reshapes {} by the size {}", graph::text(from), form.text()));
    whole.forms.erase(same);
  }
  if (rest.factor == 0 || whole.factor % rest.factor != 0 || whole.forms.size() > 1) {
    refuse(fmt::format("reshapes {} to {}", graph::text(from), graph::text(out)));
  }
  const std::int64_t factor = whole.factor / rest.factor;
  out[*open] = whole.forms.empty() ? Dim(factor) : whole.forms[0] * factor;
  return out;
}

// A size as a number that is computed: the last of 0, 1, ..., size.
ValueId OnnxImporter::value_of_size(const Dim& dim) {
  if (dim.is_constant()) return constant({1}, {static_cast<double>(dim.constant())}, DType::i64);
  if (dim.constant() != 0) {
    return emit(Op::add, {value_of_size(dim - dim.constant()),
                          constant({1}, {static_cast<double>(dim.constant())}, DType::i64)});
  }
  const ValueId numbers = emit(Op::range, {}, graph::ShapeAttributes{.shape = {dim + 1}});
  const ValueId last = emit(Op::slice, {numbers}, graph::SliceAttributes{.axis = 0, .begin = dim, .end = dim + 1});
  return emit(Op::cast, {last}, graph::CastAttributes{.dtype = DType::i64});
}

// Asked without making a weight of what is none.
bool OnnxImporter::may_be_sizes(const std::string& name) {
  if (const auto made = items_.find(name); made != items_.end()) return made->second.sizes.has_value();
  const auto held = initializers_.find(name);
  if (held == initializers_.end()) return false;
  const std::int32_t type = held->second->data_type();
  const bool is_whole = type == onnx::TensorProto::INT64 || type == onnx::TensorProto::INT32;
  return is_whole && item(name).sizes.has_value();
}

bool OnnxImporter::known_sizes(const onnx::NodeProto& node) {
  const std::string& op = node.op_type();
  const auto give_sizes = [&](Shape shape, std::vector<Dim> sizes, DType dtype = DType::i64) {
    give(node, Item{.id = -1, .shape = std::move(shape), .dtype = dtype, .sizes = std::move(sizes)});
    return true;
  };
  if (op == "Shape") {
    const Shape& of = in(node, 0).shape;
    const auto count = static_cast<std::int64_t>(of.size());
    const auto bound = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + count : at, 0, count); };
    const std::int64_t begin = bound(whole(node, "start", 0));
    const std::int64_t end = std::max(begin, bound(whole(node, "end", count)));
    return give_sizes({end - begin}, {of.begin() + begin, of.begin() + end});
  }
  for (int i = 0; i < node.input_size(); ++i) {
    if (!node.input(i).empty() && !may_be_sizes(node.input(i))) return false;
  }
  if (op == "Add" || op == "Sub" || op == "Mul" || op == "Div" || op == "Equal") {
    const Item& a = in(node, 0);
    const Item& b = in(node, 1);
    auto sizes = sizes_of_binary(op, a, b);
    if (!sizes) return false;
    const Shape& shape = a.sizes->size() > b.sizes->size() || a.shape.size() > b.shape.size() ? a.shape : b.shape;
    return give_sizes(shape, std::move(*sizes), op == "Equal" ? DType::boolean : DType::i64);
  }
  if (op == "Neg") {
    std::vector<Dim> out;
    for (const Dim& dim : sizes_in(node, 0)) out.push_back(dim * -1);
    return give_sizes(in(node, 0).shape, out);
  }
  if (op == "Concat") {
    std::vector<Dim> out;
    for (int i = 0; i < node.input_size(); ++i) {
      if (in(node, i).shape.size() != 1) return false;
      out.insert(out.end(), in(node, i).sizes->begin(), in(node, i).sizes->end());
    }
    const auto count = static_cast<std::int64_t>(out.size());
    return give_sizes({count}, std::move(out));
  }
  if (op == "Gather") {
    const std::vector<Dim>& table = sizes_in(node, 0);
    if (in(node, 0).shape.size() != 1) return false;
    std::vector<Dim> out;
    for (const std::int64_t index : numbers_in(node, 1)) {
      const std::int64_t from = index < 0 ? index + static_cast<std::int64_t>(table.size()) : index;
      if (from < 0 || std::cmp_greater_equal(from, table.size())) refuse(fmt::format("index {} is outside", index));
      out.push_back(table[static_cast<std::size_t>(from)]);
    }
    return give_sizes(in(node, 1).shape, std::move(out));
  }
  if (op == "Slice" && in(node, 0).shape.size() == 1) {
    const std::vector<Dim>& table = sizes_in(node, 0);
    const auto count = static_cast<std::int64_t>(table.size());
    if (has(node, 4) && numbers_in(node, 4) != std::vector<std::int64_t>{1}) return false;
    const auto bound = [&](int i) {
      const std::int64_t at = numbers_in(node, i).at(0);
      return std::clamp<std::int64_t>(at < 0 ? at + count : at, 0, count);
    };
    const std::int64_t begin = bound(1);
    const std::int64_t end = std::max(begin, bound(2));
    return give_sizes({end - begin}, {table.begin() + begin, table.begin() + end});
  }
  if (op == "Unsqueeze" || op == "Squeeze" || op == "Reshape") {
    if (op == "Reshape") {
      const Shape target = reshaped(in(node, 0).shape, sizes_in(node, 1), false);
      return give_sizes(target, sizes_in(node, 0));
    }
    const std::size_t axes = in(node, 0).shape.size() + (op == "Unsqueeze" ? 1 : 0);
    const std::size_t count = in(node, 0).sizes->size();
    if (count != 1) return false;
    const std::size_t left = op == "Squeeze" ? 0 : axes;
    return give_sizes(Shape(left, Dim(1)), sizes_in(node, 0));
  }
  if (op == "ConstantOfShape") {
    const std::vector<Dim>& target = sizes_in(node, 0);
    const bool small =
        target.size() == 1 && target[0].is_constant() && target[0].constant() >= 0 && target[0].constant() <= 64;
    const onnx::AttributeProto* value = attribute(node, "value");
    if (!small || value == nullptr || value->t().data_type() != onnx::TensorProto::INT64) return false;
    const auto filler = static_cast<std::int64_t>(formats::onnx_numbers(file_.tensor(value->t()), 0, 1)[0]);
    return give_sizes(Shape(target.begin(), target.end()),
                      std::vector<Dim>(static_cast<std::size_t>(target[0].constant()), Dim(filler)));
  }
  if (op == "Where") {
    const std::vector<Dim>& condition = sizes_in(node, 0);
    const std::vector<Dim>& a = sizes_in(node, 1);
    const std::vector<Dim>& b = sizes_in(node, 2);
    if (a.size() != condition.size() || b.size() != condition.size()) return false;
    std::vector<Dim> out;
    for (std::size_t i = 0; i < condition.size(); ++i) {
      if (!condition[i].is_constant()) return false;
      out.push_back(condition[i].constant() != 0 ? a[i] : b[i]);
    }
    return give_sizes(in(node, 1).shape, std::move(out));
  }
  if (op == "Range") {
    const std::int64_t first = sizes_in(node, 0)[0].constant();
    const Dim& limit = sizes_in(node, 1)[0];
    const bool short_run = sizes_in(node, 0)[0].is_constant() && limit.is_constant() &&
                           sizes_in(node, 2)[0] == Dim(1) && limit.constant() - first <= 64;
    if (!short_run) return false;
    std::vector<Dim> out;
    for (std::int64_t i = first; i < limit.constant(); ++i) out.emplace_back(i);
    const auto count = static_cast<std::int64_t>(out.size());
    return give_sizes({count}, std::move(out));
  }
  return false;
}

}  // namespace pastkv::targets
