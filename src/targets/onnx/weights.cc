#include "targets/onnx/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>

#include "base/error.h"
#include "tensor/codec.h"

namespace pastkv::targets {
namespace {

using models::WeightRows;
using onnx::TensorProto;
using tensor::DType;

constexpr std::size_t kChunk = std::size_t{1} << 20;  // bytes gathered before they are written

bool is_blocks(OnnxEncoding encoding) {
  return encoding != OnnxEncoding::f32 && encoding != OnnxEncoding::f16;
}

bool is_four_bits(OnnxEncoding encoding) {
  return encoding == OnnxEncoding::int4 || encoding == OnnxEncoding::uint4;
}

std::int32_t element_type(OnnxEncoding encoding) {
  switch (encoding) {
    case OnnxEncoding::f32:
      return TensorProto::FLOAT;
    case OnnxEncoding::f16:
      return TensorProto::FLOAT16;
    case OnnxEncoding::int8:
      return TensorProto::INT8;
    case OnnxEncoding::uint8:
      return TensorProto::UINT8;
    case OnnxEncoding::int4:
      return TensorProto::INT4;
    case OnnxEncoding::uint4:
      return TensorProto::UINT4;
  }
  __builtin_unreachable();
}

std::uint64_t row_bytes(OnnxEncoding encoding, std::int64_t width) {
  const auto wide = static_cast<std::uint64_t>(width);
  if (encoding == OnnxEncoding::f32) return wide * 4;
  if (encoding == OnnxEncoding::f16) return wide * 2;
  return is_four_bits(encoding) ? wide / 2 : wide;
}

// One block of GGUF's q8_0 or q4_0 to values in order, and its scale.
class BlockTurner {
 public:
  BlockTurner(const WeightRows& rows, OnnxEncoding encoding)
      : rows_(rows), encoding_(encoding), numbers_(static_cast<std::size_t>(rows.width())) {
    const DType stored = rows.stored_type();
    const bool fits = is_four_bits(encoding) ? stored == DType::q4_0 : stored == DType::q8_0 || stored == DType::q4_0;
    direct_ = rows.is_copy() && fits;
    type_ = direct_ ? stored : is_four_bits(encoding) ? DType::q4_0 : DType::q8_0;
    encoded_.resize(static_cast<std::size_t>(*tensor::byte_size(type_, static_cast<std::uint64_t>(rows.width()))));
  }

  void turn(std::int64_t row, std::span<std::byte> values, std::vector<float>& scales) {
    std::span<const std::byte> blocks = encoded_;
    if (direct_) {
      blocks = rows_.row_bytes(row);
    } else {
      rows_.decode_row(row, numbers_);
      tensor::encode_row(type_, numbers_, encoded_);
    }
    const std::size_t size = type_ == DType::q4_0 ? 18 : 34;
    const std::size_t out = is_four_bits(encoding_) ? 16 : 32;
    for (std::size_t block = 0; block * size < blocks.size(); ++block) {
      const std::span<const std::byte> from = blocks.subspan(block * size, size);
      std::uint16_t scale = 0;
      std::memcpy(&scale, from.data(), sizeof(scale));
      scales.push_back(tensor::f16_to_f32(scale));
      one(from.subspan(2), values.subspan(block * out, out));
    }
  }

 private:
  // q4_0 holds the values 8 higher, element j in the low and j + 16 in the high half of byte j; q8_0 signed ones.
  void one(std::span<const std::byte> from, std::span<std::byte> to) const {
    std::array<int, 32> values{};
    for (std::size_t j = 0; j < 32; ++j) {
      const auto held = static_cast<std::uint8_t>(from[type_ == DType::q4_0 ? j % 16 : j]);
      values[j] = type_ == DType::q4_0 ? ((j < 16 ? held : held >> 4) & 15) - 8 : static_cast<std::int8_t>(held);
    }
    const int above = encoding_ == OnnxEncoding::uint8 ? 128 : encoding_ == OnnxEncoding::uint4 ? 8 : 0;
    if (!is_four_bits(encoding_)) {
      for (std::size_t j = 0; j < 32; ++j) to[j] = static_cast<std::byte>(values[j] + above);
      return;
    }
    for (std::size_t j = 0; j < 16; ++j) {
      to[j] = static_cast<std::byte>(((values[2 * j] + above) & 15) | (((values[2 * j + 1] + above) & 15) << 4));
    }
  }

  const WeightRows& rows_;
  OnnxEncoding encoding_;
  bool direct_ = false;
  DType type_ = DType::q8_0;
  std::vector<float> numbers_;
  std::vector<std::byte> encoded_;
};

// Rows as plain numbers.
class PlainTurner {
 public:
  PlainTurner(const WeightRows& rows, OnnxEncoding encoding)
      : rows_(rows), type_(encoding == OnnxEncoding::f16 ? DType::f16 : DType::f32) {
    numbers_.resize(static_cast<std::size_t>(rows.width()));
    copies_ = rows.is_copy() && rows.stored_type() == type_;
  }

  void turn(std::int64_t row, std::span<std::byte> out) {
    if (copies_) {
      const std::span<const std::byte> bytes = rows_.row_bytes(row);
      std::memcpy(out.data(), bytes.data(), bytes.size());
      return;
    }
    rows_.decode_row(row, numbers_);
    if (type_ == DType::f32) {
      std::memcpy(out.data(), numbers_.data(), out.size());
      return;
    }
    const auto too_large = [](float x) { return std::abs(x) >= 65520.0F && std::isfinite(x); };
    if (const auto found = std::ranges::find_if(numbers_, too_large); found != numbers_.end()) {
      throw Error({.place = "tensor " + rows_.name,
                   .reason = fmt::format("holds {}, and f16 ends at 65504", *found),
                   .remedy = "write it with --precision fp32"});
    }
    tensor::encode_row(type_, numbers_, out);
  }

 private:
  const WeightRows& rows_;
  DType type_;
  std::vector<float> numbers_;
  bool copies_ = false;
};

void write_weight(const WeightRows& rows, OnnxEncoding encoding, OutputFile& file) {
  const auto bytes = static_cast<std::size_t>(row_bytes(encoding, rows.width()));
  const std::int64_t at_once =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(kChunk / std::max<std::size_t>(1, bytes)));
  std::vector<std::byte> chunk;
  std::vector<float> scales;
  PlainTurner plain(rows, encoding);
  std::optional<BlockTurner> blocks;
  if (is_blocks(encoding)) blocks.emplace(rows, encoding);
  for (std::int64_t row = 0; row < rows.rows(); row += at_once) {
    const std::int64_t count = std::min(at_once, rows.rows() - row);
    chunk.resize(static_cast<std::size_t>(count) * bytes);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::span<std::byte> out = std::span(chunk).subspan(static_cast<std::size_t>(i) * bytes, bytes);
      if (blocks) {
        blocks->turn(row + i, out, scales);
      } else {
        plain.turn(row + i, out);
      }
    }
    file.write(chunk);
  }
  if (blocks) {
    file.pad_to(formats::OnnxDataLayout::kAlignment);
    file.write(std::as_bytes(std::span(scales)));
  }
  rows.drop();
}

}  // namespace

bool has_blocks(std::int64_t width) {
  return width % OnnxWeights::kBlock == 0;
}

OnnxStored OnnxWeights::add(const WeightRows& rows, const std::string& name, OnnxEncoding encoding, bool in_blocks) {
  TensorProto& values = *graph_.add_initializer();
  values.set_name(name);
  values.set_data_type(in_blocks ? static_cast<std::int32_t>(TensorProto::UINT8) : element_type(encoding));
  for (const std::int64_t size : rows.shape) values.add_dims(size);
  if (in_blocks) {
    values.set_dims(values.dims_size() - 1, rows.width() / kBlock);
    values.add_dims(is_four_bits(encoding) ? kBlock / 2 : kBlock);
  }
  const std::uint64_t bytes = row_bytes(encoding, rows.width()) * static_cast<std::uint64_t>(rows.rows());
  layout_.refer(values, layout_.place(bytes), bytes);
  placed_.push_back({.rows = &rows, .encoding = encoding});
  if (!is_blocks(encoding)) return {.values = name, .scales = ""};

  TensorProto& scales = *graph_.add_initializer();
  scales.set_name(name + "_scales");
  scales.set_data_type(TensorProto::FLOAT);
  scales.add_dims(rows.rows());
  scales.add_dims(rows.width() / kBlock);
  const auto scale_bytes = static_cast<std::uint64_t>(rows.rows() * (rows.width() / kBlock)) * sizeof(float);
  layout_.refer(scales, layout_.place(scale_bytes), scale_bytes);
  return {.values = name, .scales = name + "_scales"};
}

void OnnxWeights::write(OutputFile& file, const ProgressSink& progress) const {
  for (const Placed& placed : placed_) {
    file.pad_to(formats::OnnxDataLayout::kAlignment);
    write_weight(*placed.rows, placed.encoding, file);
    if (progress) progress(file.size(), bytes());
  }
}

}  // namespace pastkv::targets
