#include "targets/weight_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "tensor/codec.h"

namespace pastkv::targets {
namespace {

using models::WeightRows;
using tensor::DType;

constexpr std::uint64_t kBatch = 8U << 20U;   // bytes encoded before they are handed on
constexpr std::uint64_t kChunk = 64U << 10U;  // bytes that a thread takes at a time
constexpr float kLargestF16 = 65504.0F;

// The bytes of rows that follow one another as they are stored, as one span; empty when they do not.
std::span<const std::byte> contiguous(const WeightRows& rows) {
  if (!rows.is_copy() || rows.parts.size() != 1 || rows.order != models::RowOrder::as_stored) return {};
  const std::span<const std::byte> first = rows.row_bytes(0);
  return {first.data(), first.size() * static_cast<std::size_t>(rows.rows())};
}

bool holds_large_numbers(DType type) {
  return type == DType::f32 || type == DType::bf16;
}

// How many numbers are finite and beyond f16.
std::int64_t count_too_large(std::span<const float> numbers) {
  return std::ranges::count_if(numbers,
                               [](float number) { return std::fabs(number) > kLargestF16 && std::isfinite(number); });
}

}  // namespace

WeightStream::WeightStream(std::string file, std::uint64_t total, ProgressSink progress)
    : file_(std::move(file)), total_(total), progress_(std::move(progress)), pool_(allowed_cores()) {}

void WeightStream::give(std::span<const std::byte> bytes, const ByteSink& sink) {
  sink(bytes);
  done_ += bytes.size();
  if (progress_) progress_(done_, total_);
}

void WeightStream::write(std::span<const std::byte> bytes, const ByteSink& sink) {
  give(bytes, sink);
}

void WeightStream::write(const WeightRows& rows, DType type, const ByteSink& sink) {
  if (rows.elements() == 0) return;
  if (rows.is_copy() && rows.stored_type() == type) {
    copy(rows, sink);
  } else {
    encode(rows, type, sink);
  }
  rows.drop();
}

void WeightStream::copy(const WeightRows& rows, const ByteSink& sink) {
  std::span<const std::byte> bytes = contiguous(rows);
  if (bytes.empty()) {
    buffer_.clear();
    for (std::int64_t row = 0; row < rows.rows(); ++row) {
      const auto one = rows.row_bytes(row);
      buffer_.insert(buffer_.end(), one.begin(), one.end());
      if (buffer_.size() < kBatch && row + 1 < rows.rows()) continue;
      give(buffer_, sink);
      buffer_.clear();
    }
    return;
  }
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min<std::size_t>(bytes.size(), kBatch));
    give(piece, sink);
    if (rows.parts.front()->file != nullptr) rows.parts.front()->file->drop(piece);
    bytes = bytes.subspan(piece.size());
  }
}

void WeightStream::encode(const WeightRows& rows, DType type, const ByteSink& sink) {
  const auto width = static_cast<std::size_t>(rows.width());
  const std::uint64_t row_bytes = tensor::byte_size(type, width).value();
  const auto batch = static_cast<std::int64_t>(std::max<std::uint64_t>(kBatch / row_bytes, 1));
  const auto chunk = static_cast<std::int64_t>(std::max<std::uint64_t>(kChunk / row_bytes, 1));
  std::vector<std::vector<float>> numbers(static_cast<std::size_t>(pool_.threads()), std::vector<float>(width));
  std::vector<std::int64_t> too_large(numbers.size(), 0);
  for (std::int64_t begin = 0; begin < rows.rows(); begin += batch) {
    const std::int64_t count = std::min(batch, rows.rows() - begin);
    buffer_.resize(static_cast<std::size_t>(count) * row_bytes);
    pool_.run((count + chunk - 1) / chunk, [&](std::int64_t index, int thread) {
      std::vector<float>& own = numbers[static_cast<std::size_t>(thread)];
      for (std::int64_t row = index * chunk; row < std::min((index + 1) * chunk, count); ++row) {
        rows.decode_row(begin + row, own);
        if (!holds_large_numbers(type)) too_large[static_cast<std::size_t>(thread)] += count_too_large(own);
        tensor::encode_row(type, own, std::span(buffer_).subspan(static_cast<std::size_t>(row) * row_bytes, row_bytes));
      }
    });
    give(buffer_, sink);
    rows.drop();
  }
  std::int64_t sum = 0;
  for (const std::int64_t number : too_large) sum += number;
  if (sum == 0) return;
  throw Error({.file = file_,
               .place = fmt::format("tensor {}", rows.name),
               .reason = fmt::format("{} of its {} numbers are beyond {}, the largest that {} holds", sum,
                                     rows.elements(), kLargestF16, tensor::name(type)),
               .remedy = "write it as bf16 or f32"});
}

}  // namespace pastkv::targets
