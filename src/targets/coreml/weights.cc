#include "targets/coreml/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "tensor/codec.h"

namespace pastkv::targets::coreml {
namespace {

using formats::coreml::BlobType;
using models::WeightRows;

constexpr float kLargestHalf = 65504.0F;
constexpr std::size_t kBuffer = 1U << 18U;  // bytes converted at a time, at least a row

// Rows of one weight, converted into a buffer and written when it is full.
class Converter {
 public:
  Converter(BlobType type, formats::coreml::WeightBlobWriter& writer) : type_(type), writer_(writer) {}

  // How many numbers were beyond fp16.
  std::uint64_t convert(const WeightRows& weight) {
    beyond_ = 0;
    const tensor::DType wanted = type_ == BlobType::float16 ? tensor::DType::f16 : tensor::DType::f32;
    const bool as_stored = weight.is_copy() && weight.stored_type() == wanted;
    row_.resize(static_cast<std::size_t>(weight.width()));
    for (std::int64_t row = 0; row < weight.rows(); ++row) {
      if (as_stored) {
        const auto bytes = weight.row_bytes(row);
        buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
      } else {
        weight.decode_row(row, row_);
        append_row();
      }
      if (buffer_.size() >= kBuffer) flush();
    }
    flush();
    return beyond_;
  }

 private:
  void append_row() {
    const std::size_t start = buffer_.size();
    if (type_ == BlobType::float32) {
      const auto bytes = std::as_bytes(std::span(row_));
      buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
      return;
    }
    for (float& number : row_) {
      if (std::abs(number) <= kLargestHalf || std::isnan(number)) continue;
      number = std::copysign(kLargestHalf, number);
      ++beyond_;
    }
    buffer_.resize(start + row_.size() * sizeof(std::uint16_t));
    tensor::encode_row(tensor::DType::f16, row_, std::span(buffer_).subspan(start));
  }

  void flush() {
    writer_.append(buffer_);
    buffer_.clear();
  }

  BlobType type_;
  formats::coreml::WeightBlobWriter& writer_;
  std::vector<float> row_;
  std::vector<std::byte> buffer_;
  std::uint64_t beyond_ = 0;
};

template <typename Visit>
void for_each_weight(const models::CanonicalModel& model, Visit visit) {
  for (std::size_t i = 0; i < model.weights.size(); ++i) {
    if (!model.weights[i].parts.empty()) visit(model.graph.values[i].name, model.weights[i]);
  }
}

}  // namespace

WeightOffsets write_weights(const models::CanonicalModel& model, BlobType type,
                            formats::coreml::WeightBlobWriter& writer, const WriteContext& context,
                            std::vector<std::string>& notes) {
  const std::uint64_t total = weight_bytes(model, type);
  std::uint64_t done = 0;
  WeightOffsets offsets;
  Converter converter(type, writer);
  for_each_weight(model, [&](const std::string& name, const WeightRows& weight) {
    offsets[name] = writer.begin(type, weight.elements());
    const std::uint64_t beyond = converter.convert(weight);
    weight.drop();
    if (beyond > 0) {
      notes.push_back(
          fmt::format("{}: {} of {} numbers are beyond fp16 and became +-65504; --precision fp32 keeps them", name,
                      beyond, weight.elements()));
    }
    done += weight.elements() * bits(type) / 8;
    if (context.progress) context.progress(done, total);
  });
  return offsets;
}

std::uint64_t weight_bytes(const models::CanonicalModel& model, BlobType type) {
  std::uint64_t total = 0;
  for_each_weight(model,
                  [&](const std::string&, const WeightRows& weight) { total += weight.elements() * bits(type) / 8; });
  return total;
}

}  // namespace pastkv::targets::coreml
