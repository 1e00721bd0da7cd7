// Operations of ONNX Runtime's own domain.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/config.h"
#include "targets/onnx/importer.h"

namespace pastkv::targets {

using formats::OnnxTensor;
using graph::AxisAttributes;
using graph::Dim;
using graph::Op;
using graph::Shape;
using graph::ShapeAttributes;
using graph::SliceAttributes;
using graph::Symbol;
using graph::ValueId;

std::int64_t OnnxImporter::channels(ValueId x) const {
  if (shape(x).empty() || !shape(x).back().is_constant() || shape(x).back().constant() < 1) {
    refuse(fmt::format("{} has no channels", graph::text(shape(x))));
  }
  return shape(x).back().constant();
}

// The state that a past stands for; this node writes it.
ValueId OnnxImporter::past_of(const std::string& name, const std::string& present) {
  const auto found = items_.find(name);
  if (found == items_.end() || found->second.state < 0) refuse(fmt::format("its past '{}' is no cache", name));
  Cache& cache = caches_[static_cast<std::size_t>(found->second.state)];
  if (cache.present != present || cache.written) refuse(fmt::format("'{}' is not the present of '{}'", present, name));
  cache.written = true;
  return cache.state;
}

// x [1, query, heads, n], cosine and sine [1 or query..., 1, pairs]: the first 2 * pairs channels turn.
ValueId OnnxImporter::rotated(ValueId x, ValueId cosine, ValueId sine, bool interleaved) {
  const std::int64_t pairs = channels(cosine);
  const std::int64_t width = channels(x);
  if (2 * pairs > width) refuse(fmt::format("{} angles for heads of {}", pairs, width));
  const auto part = [&](ValueId of, std::int64_t begin, std::int64_t end) {
    const int last = static_cast<int>(shape(of).size()) - 1;
    return emit(Op::slice, {of}, SliceAttributes{.axis = last, .begin = begin, .end = end});
  };
  Shape half = shape(x);
  half.back() = pairs;
  Shape paired = half;
  paired.push_back(2);
  ValueId first = -1;
  ValueId second = -1;
  if (interleaved) {
    const ValueId turned = emit(Op::reshape, {part(x, 0, 2 * pairs)}, ShapeAttributes{.shape = paired});
    first = emit(Op::reshape, {part(turned, 0, 1)}, ShapeAttributes{.shape = half});
    second = emit(Op::reshape, {part(turned, 1, 2)}, ShapeAttributes{.shape = half});
  } else {
    first = part(x, 0, pairs);
    second = part(x, pairs, 2 * pairs);
  }
  ValueId left = emit(Op::subtract, {emit(Op::multiply, {first, cosine}), emit(Op::multiply, {second, sine})});
  ValueId right = emit(Op::add, {emit(Op::multiply, {second, cosine}), emit(Op::multiply, {first, sine})});
  ValueId y = -1;
  if (interleaved) {
    Shape single = half;
    single.push_back(1);
    left = emit(Op::reshape, {left}, ShapeAttributes{.shape = single});
    right = emit(Op::reshape, {right}, ShapeAttributes{.shape = single});
    half.back() = 2 * pairs;
    y = emit(Op::reshape, {emit(Op::concat, {left, right}, AxisAttributes{.axis = -1})},
             ShapeAttributes{.shape = half});
  } else {
    y = emit(Op::concat, {left, right}, AxisAttributes{.axis = -1});
  }
  if (2 * pairs == width) return y;
  return emit(Op::concat, {y, part(x, 2 * pairs, width)}, AxisAttributes{.axis = -1});
}

// One sequence without padding: its lengths are those of past and query, whatever computes them.
void OnnxImporter::on_grouped_attention(const onnx::NodeProto& node) {
  const std::int64_t heads = whole(node, "num_heads", 0);
  const std::int64_t kv_heads = whole(node, "kv_num_heads", 0);
  const bool sound = heads >= 1 && heads <= models::kMaxHeads && kv_heads >= 1 && heads % kv_heads == 0;
  if (!sound) refuse(fmt::format("{} heads over {}", heads, kv_heads));
  if (node.output_size() < 3) refuse("gives no present");
  for (const int unread : {11, 12, 13, 14, 15}) {
    if (has(node, unread)) refuse(fmt::format("input {} is not read here", unread));
  }
  std::vector<ValueId> parts;
  if (has(node, 1)) {
    parts = {id(node, 0), id(node, 1), id(node, 2)};
  } else {  // query, key and value in one
    const std::int64_t all = channels(id(node, 0));
    if (all % (heads + 2 * kv_heads) != 0) refuse(fmt::format("{} channels of {} and {} heads", all, heads, kv_heads));
    const std::int64_t width = all / (heads + 2 * kv_heads);
    parts = b_.split(id(node, 0), {heads * width, kv_heads * width, kv_heads * width});
  }
  const auto in_heads = [&](ValueId x, std::int64_t count) {
    const std::int64_t width = channels(x);
    if (width % count != 0) refuse(fmt::format("{} channels of {} heads", width, count));
    return emit(Op::reshape, {x}, ShapeAttributes{.shape = {1, Symbol::query, count, width / count}});
  };
  ValueId q = in_heads(parts[0], heads);
  ValueId k = in_heads(parts[1], kv_heads);
  const ValueId v = in_heads(parts[2], kv_heads);

  if (whole(node, "do_rotary", 0) != 0) {
    const auto angles = [&](int i) {
      ValueId rows = -1;
      if (has(node, 9)) {
        rows = emit(Op::gather, {id(node, i), id(node, 9)});
      } else {
        const ValueId positions = emit(Op::range, {}, ShapeAttributes{.shape = {Dim(Symbol::past) + Symbol::query}});
        const ValueId own =
            emit(Op::slice, {positions},
                 SliceAttributes{.axis = 0, .begin = Symbol::past, .end = Dim(Symbol::past) + Symbol::query});
        rows = emit(Op::gather, {id(node, i), own});
      }
      return emit(Op::reshape, {rows}, ShapeAttributes{.shape = {1, Symbol::query, 1, channels(rows)}});
    };
    const bool interleaved = whole(node, "rotary_interleaved", 0) != 0;
    const ValueId cosine = angles(7);
    const ValueId sine = angles(8);
    q = rotated(q, cosine, sine, interleaved);
    k = rotated(k, cosine, sine, interleaved);
  }

  const ValueId keys = b_.state_update(past_of(node.input(3), node.output(1)), k);
  const ValueId values = b_.state_update(past_of(node.input(4), node.output(2)), v);
  const float scale = fraction(node, "scale", 0.0F);
  const std::int64_t window = whole(node, "local_window_size", -1);
  const float width = static_cast<float>(shape(q)[3].constant());
  const graph::AttentionAttributes attributes{.scale = scale == 0.0F ? 1.0F / std::sqrt(width) : scale,
                                              .window = std::max<std::int64_t>(window, 0),
                                              .softcap = fraction(node, "softcap", 0.0F)};
  const ValueId mixed = b_.attention(q, keys, values, attributes, has(node, 10) ? id(node, 10) : -1);
  const std::int64_t all = heads * shape(mixed)[3].constant();
  give(node, 0, emit(Op::reshape, {mixed}, ShapeAttributes{.shape = {1, Symbol::query, all}}));
  give(node, 1, keys);
  give(node, 2, values);
}

// Outputs: the norm, two that only training reads, the sum.
void OnnxImporter::on_skip_norm(const onnx::NodeProto& node) {
  ValueId sum = emit(Op::add, {id(node, 0), id(node, 1)});
  if (has(node, 3)) sum = emit(Op::add, {sum, id(node, 3)});
  give(node, 0, b_.rms_norm(sum, id(node, 2), {.epsilon = fraction(node, "epsilon", 1e-5F)}));
  give(node, 3, sum);
}

OnnxImporter::Loader OnnxImporter::block_loader(const OnnxTensor& values, const OnnxTensor& scales,
                                                const std::optional<OnnxTensor>& zeros, std::int64_t rows,
                                                std::int64_t width, std::int64_t block, int bits) const {
  const std::int64_t blocks = (width + block - 1) / block;
  const std::int64_t row_bytes = blocks * (block * bits / 8);
  const bool whole_zeros = zeros && formats::onnx_bits(zeros->type) == 8;
  const std::int64_t zero_row = (blocks * bits + 7) / 8;  // bytes
  const std::int64_t wanted_zeros = whole_zeros ? rows * zero_row : rows * blocks;
  if (values.elements() != rows * row_bytes || formats::onnx_bits(values.type) != 8 ||
      scales.elements() != rows * blocks || (zeros && zeros->elements() != wanted_zeros)) {
    refuse(fmt::format("{} bytes and {} scales for {} rows of {} in blocks of {}", values.bytes.size(),
                       scales.elements(), rows, width, block));
  }
  return [=] {
    const std::vector<double> by = formats::onnx_numbers(scales, 0, scales.elements());
    std::vector<double> fractions;
    if (zeros && !whole_zeros) fractions = formats::onnx_numbers(*zeros, 0, zeros->elements());
    // Number i of a run of packed ones, the low bits first.
    const auto packed = [bits](std::span<const std::byte> bytes, std::int64_t i) {
      const auto byte = std::to_integer<int>(bytes[static_cast<std::size_t>(i * bits / 8)]);
      return (byte >> (i * bits % 8)) & ((1 << bits) - 1);
    };
    std::vector<float> out(static_cast<std::size_t>(rows * width));
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto held =
          values.bytes.subspan(static_cast<std::size_t>(row * row_bytes), static_cast<std::size_t>(row_bytes));
      for (std::int64_t i = 0; i < width; ++i) {
        const std::int64_t at = row * blocks + i / block;
        double zero = 1 << (bits - 1);
        if (whole_zeros) {
          zero =
              packed(zeros->bytes.subspan(static_cast<std::size_t>(row * zero_row), static_cast<std::size_t>(zero_row)),
                     i / block);
        } else if (zeros) {
          zero = fractions[static_cast<std::size_t>(at)];
        }
        out[static_cast<std::size_t>(row * width + i)] =
            static_cast<float>((packed(held, i) - zero) * by[static_cast<std::size_t>(at)]);
      }
    }
    return out;
  };
}

void OnnxImporter::on_block_matmul(const onnx::NodeProto& node) {
  const std::int64_t width = whole(node, "K", 0);
  const std::int64_t rows = whole(node, "N", 0);
  const std::int64_t block = whole(node, "block_size", 0);
  const auto bits = static_cast<int>(whole(node, "bits", 4));
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  const bool sound = width > 0 && rows > 0 && width < kMost && rows < kMost && block >= 16 && block < kMost &&
                     (block & (block - 1)) == 0 && (bits == 2 || bits == 4 || bits == 8);
  if (!sound) refuse(fmt::format("K {}, N {}, block_size {}, bits {}", width, rows, block, bits));
  const OnnxTensor values = constant_in(node, 1);
  const OnnxTensor scales = constant_in(node, 2);
  std::optional<OnnxTensor> zeros;
  if (has(node, 3)) zeros = constant_in(node, 3);
  if (has(node, 4)) refuse("orders its rows by g_idx");
  auto [known, is_new] = matrices_.try_emplace("blocks " + node.input(1), -1);
  if (is_new) {
    known->second = weight(values.name, {rows, width}, block_loader(values, scales, zeros, rows, width, block, bits),
                           {values, scales}, fmt::format("int{} in blocks of {}", bits, block), bits);
  }
  const ValueId y = b_.linear(id(node, 0), known->second);
  give(node, 0, has(node, 5) ? emit(Op::add, {y, id(node, 5)}) : y);
}

void OnnxImporter::on_block_gather(const onnx::NodeProto& node) {
  const OnnxTensor values = constant_in(node, 0);
  const OnnxTensor scales = constant_in(node, 2);
  std::optional<OnnxTensor> zeros;
  if (has(node, 3)) zeros = constant_in(node, 3);
  const std::int64_t block = whole(node, "block_size", 128);
  const auto bits = static_cast<int>(whole(node, "bits", 4));
  if (values.shape.size() != 2 || formats::onnx_bits(values.type) != 8 || whole(node, "gather_axis", 0) != 0 ||
      (bits != 4 && bits != 8) || block < 16 || block > 4096) {
    refuse("blocks of another kind than rows of packed bytes");
  }
  const std::int64_t rows = values.shape[0];
  const std::int64_t width = values.shape[1] * 8 / bits;
  const ValueId table =
      weight(values.name, {rows, width}, block_loader(values, scales, zeros, rows, width, block, bits),
             {values, scales}, fmt::format("int{} in blocks of {}", bits, block), bits);
  give(node, 0, emit(Op::gather, {table, id(node, 1)}));
}

// (x, positions, cosines, sines) of ONNX Runtime; (x, cosines, sines, positions) of the standard.
void OnnxImporter::on_rotary(const onnx::NodeProto& node) {
  const bool contrib = node.domain() == "com.microsoft";
  const ValueId x = id(node, 0);
  const ValueId cosines = id(node, contrib ? 2 : 1);
  const ValueId sines = id(node, contrib ? 3 : 2);
  const ValueId positions = id(node, contrib ? 1 : 3);
  const Shape before = shape(x);
  const bool heads_first = before.size() == 4;
  const auto turn = [&](ValueId of) {
    return emit(Op::transpose, {of}, graph::PermutationAttributes{.axes = {0, 2, 1, 3}});
  };
  ValueId rows = x;
  if (heads_first) {
    rows = turn(x);
  } else {
    const std::int64_t count = whole(node, "num_heads", 0);
    const std::int64_t pairs = channels(cosines);
    const std::int64_t width = count > 0 ? channels(x) / count : 2 * pairs;
    if (width < 1 || channels(x) % width != 0) refuse("channels that are no whole number of heads");
    rows = emit(Op::reshape, {x}, ShapeAttributes{.shape = {1, Symbol::query, channels(x) / width, width}});
  }
  const auto angles = [&](ValueId table) {
    const ValueId own = emit(Op::gather, {table, positions});
    return emit(Op::reshape, {own}, ShapeAttributes{.shape = {1, Symbol::query, 1, channels(own)}});
  };
  const ValueId y = rotated(rows, angles(cosines), angles(sines), whole(node, "interleaved", 0) != 0);
  give(node, 0, heads_first ? turn(y) : emit(Op::reshape, {y}, ShapeAttributes{.shape = before}));
}

}  // namespace pastkv::targets
