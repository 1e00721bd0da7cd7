#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "graph/reference.h"
#include "tensor/codec.h"

namespace pastkv::graph::reference {
namespace {

// Elements between neighbours along each axis, row-major.
Extents strides_of(const Extents& shape) {
  Extents strides(shape.size(), 1);
  for (std::size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

// A copy of x read through strides: element [i, j, ...] of the result is x.data[offset + i * strides[0] + ...].
// Transposing, slicing and broadcasting are this, with strides permuted, an offset, and strides of 0.
Tensor strided(const Tensor& x, Extents shape, const Extents& strides, std::int64_t offset) {
  Tensor y = zeros(std::move(shape));
  Extents index(y.shape.size(), 0);
  for (float& value : y.data) {
    value = x.data[static_cast<std::size_t>(offset)];
    for (std::size_t axis = index.size(); axis-- > 0;) {  // the next index, as an odometer counts
      offset += strides[axis];
      if (++index[axis] < y.shape[axis]) break;
      offset -= strides[axis] * y.shape[axis];
      index[axis] = 0;
    }
  }
  return y;
}

Extents broadcast(const Extents& a, const Extents& b) {
  Extents out(std::max(a.size(), b.size()), 1);
  for (const Extents* shape : {&a, &b}) {
    for (std::size_t i = 0; i < shape->size(); ++i) {
      const std::int64_t size = (*shape)[shape->size() - 1 - i];
      if (size != 1) out[out.size() - 1 - i] = size;
    }
  }
  return out;
}

// The shape as [outer, n, inner] around one axis.
struct Around {
  std::size_t outer = 1;
  std::size_t n = 1;
  std::size_t inner = 1;
};

Around around(const Extents& shape, std::size_t axis) {
  const auto split = shape.begin() + static_cast<std::ptrdiff_t>(axis);
  return {.outer = elements(Extents(shape.begin(), split)),
          .n = static_cast<std::size_t>(*split),
          .inner = elements(Extents(split + 1, shape.end()))};
}

std::size_t counted(int axis, const Extents& shape) {
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<int>(shape.size()) : axis);
}

double apply(Op op, double x) {
  switch (op) {
    case Op::negate:
      return -x;
    case Op::absolute:
      return std::abs(x);
    case Op::exponential:
      return std::exp(x);
    case Op::square_root:
      return std::sqrt(x);
    case Op::tanh:
      return std::tanh(x);
    case Op::erf:
      return std::erf(x);
    case Op::sine:
      return std::sin(x);
    case Op::cosine:
      return std::cos(x);
    default:
      throw Error({.reason = fmt::format("{} is no function of one number", name(op))});
  }
}

double apply(Op op, double a, double b) {
  switch (op) {
    case Op::add:
      return a + b;
    case Op::subtract:
      return a - b;
    case Op::multiply:
      return a * b;
    case Op::divide:
      return a / b;
    case Op::power:
      return std::pow(a, b);
    case Op::less:
      return a < b ? 1.0 : 0.0;
    case Op::less_equal:
      return a <= b ? 1.0 : 0.0;
    case Op::logical_and:
      return a != 0.0 && b != 0.0 ? 1.0 : 0.0;
    default:
      throw Error({.reason = fmt::format("{} is no function of two numbers", name(op))});
  }
}

float converted(float value, tensor::DType to) {
  switch (to) {
    case tensor::DType::i32:
    case tensor::DType::i64:
      return std::trunc(value);
    case tensor::DType::boolean:
      return value != 0.0F ? 1.0F : 0.0F;
    case tensor::DType::f16:
      return tensor::f16_to_f32(tensor::f32_to_f16(value));
    case tensor::DType::bf16:
      return tensor::bf16_to_f32(tensor::f32_to_bf16(value));
    default:
      return value;
  }
}

}  // namespace

std::size_t elements(const Extents& shape) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  return count;
}

Tensor zeros(Extents shape) {
  const std::size_t count = elements(shape);
  return {.shape = std::move(shape), .data = std::vector<float>(count)};
}

Tensor gather(const Tensor& table, const Tensor& indices) {
  const std::size_t width = table.shape[0] == 0 ? 0 : table.data.size() / extent(table, 0);
  Extents shape = indices.shape;
  shape.insert(shape.end(), table.shape.begin() + 1, table.shape.end());
  Tensor y = zeros(std::move(shape));
  for (std::size_t i = 0; i < indices.data.size(); ++i) {
    const float index = indices.data[i];
    if (!(index >= 0.0F && index < static_cast<float>(table.shape[0]))) {
      throw Error({.reason = fmt::format("index {} is outside a table of {} rows", index, table.shape[0])});
    }
    std::copy_n(&table.data[static_cast<std::size_t>(index) * width], width, &y.data[i * width]);
  }
  return y;
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  const std::size_t rows = extent(a, a.shape.size() - 2);
  const std::size_t inner = extent(a, a.shape.size() - 1);
  const std::size_t columns = extent(b, b.shape.size() - 1);

  // Stretch the leading axes of both, so that matrix i of a meets matrix i of b.
  const Extents leading =
      broadcast(Extents(a.shape.begin(), a.shape.end() - 2), Extents(b.shape.begin(), b.shape.end() - 2));
  const auto stretched = [&](const Tensor& x, Tensor& room) -> const Tensor& {
    Extents shape = leading;
    shape.insert(shape.end(), x.shape.end() - 2, x.shape.end());
    if (shape == x.shape) return x;  // a copy of a weight is large
    return room = expand(x, shape);
  };
  Tensor room_left;
  Tensor room_right;
  const Tensor& left = stretched(a, room_left);    // [matrices, rows, inner]
  const Tensor& right = stretched(b, room_right);  // [matrices, inner, columns]

  Extents shape = leading;
  shape.push_back(a.shape[a.shape.size() - 2]);
  shape.push_back(b.shape.back());
  Tensor y = zeros(std::move(shape));  // [matrices, rows, columns]
  for (std::size_t matrix = 0; matrix < elements(leading); ++matrix) {
    for (std::size_t row = 0; row < rows; ++row) {
      std::vector<double> sums(columns, 0.0);
      for (std::size_t i = 0; i < inner; ++i) {
        const double factor = left.data[(matrix * rows + row) * inner + i];
        const std::size_t start = (matrix * inner + i) * columns;
        for (std::size_t column = 0; column < columns; ++column) {
          sums[column] += factor * static_cast<double>(right.data[start + column]);
        }
      }
      for (std::size_t column = 0; column < columns; ++column) {
        y.data[(matrix * rows + row) * columns + column] = static_cast<float>(sums[column]);
      }
    }
  }
  return y;
}

Tensor transpose(const Tensor& x, const std::vector<int>& axes) {
  const Extents strides = strides_of(x.shape);
  Extents shape;
  Extents permuted;
  for (const int axis : axes) {
    shape.push_back(x.shape[static_cast<std::size_t>(axis)]);
    permuted.push_back(strides[static_cast<std::size_t>(axis)]);
  }
  return strided(x, std::move(shape), permuted, 0);
}

Tensor slice(const Tensor& x, int axis, std::int64_t begin, std::int64_t end) {
  const std::size_t along = counted(axis, x.shape);
  if (begin < 0 || begin > end || end > x.shape[along]) {
    throw Error({.reason = fmt::format("[{}, {}) of an axis of {}", begin, end, x.shape[along])});
  }
  const Extents strides = strides_of(x.shape);
  Extents shape = x.shape;
  shape[along] = end - begin;
  return strided(x, std::move(shape), strides, begin * strides[along]);
}

Tensor expand(const Tensor& x, const Extents& shape) {
  const Extents own = strides_of(x.shape);
  const std::size_t added = shape.size() - x.shape.size();
  Extents strides(shape.size(), 0);
  for (std::size_t axis = 0; axis < x.shape.size(); ++axis) {
    if (x.shape[axis] != 1) strides[added + axis] = own[axis];
  }
  return strided(x, shape, strides, 0);
}

Tensor concat(std::span<const Tensor* const> parts, int axis) {
  const std::size_t along = counted(axis, parts[0]->shape);
  Extents shape = parts[0]->shape;
  shape[along] = 0;
  for (const Tensor* part : parts) shape[along] += part->shape[along];
  const Around whole = around(shape, along);
  Tensor y = zeros(std::move(shape));
  std::size_t before = 0;  // along the axis
  for (const Tensor* part : parts) {
    const std::size_t run = extent(*part, along) * whole.inner;
    for (std::size_t outer = 0; outer < whole.outer; ++outer) {
      const auto from = part->data.begin() + static_cast<std::ptrdiff_t>(outer * run);
      std::copy_n(from, run, y.data.begin() + static_cast<std::ptrdiff_t>((outer * whole.n + before) * whole.inner));
    }
    before += extent(*part, along);
  }
  return y;
}

Tensor update_slice(const Tensor& x, const Tensor& update, const Tensor& begin) {
  const std::size_t axes = x.shape.size();
  const Extents strides = strides_of(x.shape);
  std::int64_t offset = 0;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const auto first = static_cast<std::int64_t>(begin.data[axis]);
    if (first < 0 || first + update.shape[axis] > x.shape[axis]) {
      throw Error({.reason = fmt::format("an update of {} elements from {} on reaches beyond axis {}, which has {}",
                                         update.shape[axis], first, axis, x.shape[axis])});
    }
    offset += first * strides[axis];
  }
  Tensor y = x;
  Extents index(axes, 0);
  for (const float value : update.data) {
    y.data[static_cast<std::size_t>(offset)] = value;
    for (std::size_t axis = axes; axis-- > 0;) {
      offset += strides[axis];
      if (++index[axis] < update.shape[axis]) break;
      offset -= strides[axis] * update.shape[axis];
      index[axis] = 0;
    }
  }
  return y;
}

Tensor unary(Op op, const Tensor& x) {
  Tensor y = x;
  for (float& value : y.data) value = static_cast<float>(apply(op, static_cast<double>(value)));
  return y;
}

Tensor binary(Op op, const Tensor& a, const Tensor& b) {
  const Extents shape = broadcast(a.shape, b.shape);
  Tensor y = expand(a, shape);
  const Tensor other = expand(b, shape);
  for (std::size_t i = 0; i < y.data.size(); ++i) {
    y.data[i] = static_cast<float>(apply(op, static_cast<double>(y.data[i]), static_cast<double>(other.data[i])));
  }
  return y;
}

Tensor select(const Tensor& condition, const Tensor& a, const Tensor& b) {
  const Extents shape = broadcast(condition.shape, broadcast(a.shape, b.shape));
  const Tensor chosen = expand(condition, shape);
  const Tensor other = expand(b, shape);
  Tensor y = expand(a, shape);
  for (std::size_t i = 0; i < y.data.size(); ++i) {
    if (chosen.data[i] == 0.0F) y.data[i] = other.data[i];
  }
  return y;
}

Tensor reduce(Op op, const Tensor& x, int axis) {
  const std::size_t along = counted(axis, x.shape);
  const auto [outer, n, inner] = around(x.shape, along);
  Extents shape = x.shape;
  shape[along] = 1;
  Tensor y = zeros(std::move(shape));
  const bool greatest = op == Op::reduce_max;
  for (std::size_t o = 0; o < outer; ++o) {
    for (std::size_t i = 0; i < inner; ++i) {
      double result = greatest ? -std::numeric_limits<double>::infinity() : 0.0;
      for (std::size_t k = 0; k < n; ++k) {
        const double value = x.data[(o * n + k) * inner + i];
        result = greatest ? std::max(result, value) : result + value;
      }
      if (op == Op::reduce_mean) result /= static_cast<double>(n);
      y.data[o * inner + i] = static_cast<float>(result);
    }
  }
  return y;
}

Tensor cumulative_sum(const Tensor& x, int axis) {
  const auto [outer, n, inner] = around(x.shape, counted(axis, x.shape));
  Tensor y = x;
  for (std::size_t o = 0; o < outer; ++o) {
    for (std::size_t i = 0; i < inner; ++i) {
      double sum = 0.0;
      for (std::size_t k = 0; k < n; ++k) {
        float& value = y.data[(o * n + k) * inner + i];
        sum += static_cast<double>(value);
        value = static_cast<float>(sum);
      }
    }
  }
  return y;
}

Tensor softmax(const Tensor& x) {
  const int last = static_cast<int>(x.shape.size()) - 1;
  const Tensor powers = unary(Op::exponential, binary(Op::subtract, x, reduce(Op::reduce_max, x, last)));
  return binary(Op::divide, powers, reduce(Op::reduce_sum, powers, last));
}

Tensor range(std::int64_t length) {
  Tensor y = zeros({length});
  std::iota(y.data.begin(), y.data.end(), 0.0F);
  return y;
}

Tensor cast(const Tensor& x, tensor::DType to) {
  Tensor y = x;
  for (float& value : y.data) value = converted(value, to);
  return y;
}

}  // namespace pastkv::graph::reference
