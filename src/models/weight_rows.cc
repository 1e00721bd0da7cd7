#include "models/weight_rows.h"

#include <stdexcept>

#include "tensor/codec.h"

namespace pastkv::models {
namespace {

using formats::TensorEntry;

bool is_vector(const TensorEntry& entry) {
  return entry.shape.size() < 2;
}

std::int64_t rows_of(const TensorEntry& entry) {
  return is_vector(entry) ? entry.elements() : entry.elements() / entry.shape.back();
}

// Where channel `to` of a head lies in the order that the head is stored in.
std::int64_t source_channel(RowOrder order, std::int64_t to, std::int64_t rotary_dim) {
  if (order == RowOrder::as_stored || to >= rotary_dim) return to;
  const std::int64_t half = rotary_dim / 2;
  return order == RowOrder::pairs_from_halves ? to % 2 * half + to / 2 : to % half * 2 + to / half;
}

std::span<const std::byte> bytes_of(const TensorEntry& entry, std::int64_t row) {
  const auto size = entry.bytes.size() / static_cast<std::size_t>(rows_of(entry));
  return entry.bytes.subspan(static_cast<std::size_t>(row) * size, size);
}

}  // namespace

std::int64_t WeightRows::rows() const {
  if (shape.size() < 2) return 1;
  std::int64_t product = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) product *= shape[i];
  return product;
}

std::int64_t WeightRows::width() const {
  return shape.empty() ? 1 : shape.back();
}

tensor::DType WeightRows::stored_type() const {
  return parts.front()->dtype;
}

std::uint64_t WeightRows::elements() const {
  return static_cast<std::uint64_t>(rows()) * static_cast<std::uint64_t>(width());
}

bool WeightRows::is_copy() const {
  if (added != 0.0F) return false;
  for (const TensorEntry* part : parts) {
    if (part->dtype != stored_type()) return false;
  }
  if (shape.size() > 1) return true;
  const bool sliced = row_count != 0 && tensor::traits(stored_type()).block_elements > 1;
  return order == RowOrder::as_stored && parts.size() == 1 && !sliced;
}

std::int64_t WeightRows::source_row(std::int64_t row) const {
  if (order != RowOrder::as_stored) {
    const std::int64_t channel = row % head_dim;
    row += source_channel(order, channel, rotary_dim) - channel;
  }
  return first_row + row;
}

std::span<const std::byte> WeightRows::row_bytes(std::int64_t row) const {
  if (!is_copy()) throw std::logic_error("the rows of " + name + " are not as stored");
  if (shape.size() < 2) {
    const TensorEntry& part = *parts.front();
    if (row_count == 0) return part.bytes;
    const std::size_t size = part.bytes.size() / static_cast<std::size_t>(part.elements());
    return part.bytes.subspan(static_cast<std::size_t>(first_row) * size, static_cast<std::size_t>(row_count) * size);
  }
  std::int64_t at = source_row(row);
  std::size_t part = 0;
  while (at >= rows_of(*parts[part])) at -= rows_of(*parts[part++]);
  return bytes_of(*parts[part], at);
}

void WeightRows::decode_row(std::int64_t row, std::span<float> out) const {
  if (shape.size() < 2) {
    decode_vector(out);
  } else {
    std::int64_t at = source_row(row);
    std::size_t part = 0;
    while (at >= rows_of(*parts[part])) at -= rows_of(*parts[part++]);
    tensor::decode_row(parts[part]->dtype, bytes_of(*parts[part], at), out);
  }
  if (added == 0.0F) return;
  for (float& number : out) number += added;
}

void WeightRows::decode_vector(std::span<float> out) const {
  std::vector<float> stored;
  for (const TensorEntry* part : parts) {
    const std::size_t begin = stored.size();
    stored.resize(begin + static_cast<std::size_t>(part->elements()));
    tensor::decode_row(part->dtype, part->bytes, std::span(stored).subspan(begin));
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = stored[static_cast<std::size_t>(source_row(static_cast<std::int64_t>(i)))];
  }
}

void WeightRows::drop() const {
  for (const TensorEntry* part : parts) {
    if (part->file != nullptr) part->file->drop(part->bytes);
  }
}

}  // namespace pastkv::models
