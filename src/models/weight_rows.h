// A weight as some file wants it: its rows in that file's order, with what that file adds to its numbers, read from
// where they lie. Nothing is held in memory; a row is looked at when it is asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/tensor_source.h"
#include "tensor/dtype.h"

namespace pastkv::models {

// Query and key rows of one head, as transformers keeps them (channel i rotates with i + half) or as GGUF's llama does
// (2i with 2i + 1).
enum class RowOrder : std::uint8_t { as_stored, halves_from_pairs, pairs_from_halves };

class WeightRows {
 public:
  std::string name;                 // in the file to be written; of the graph's value in a CanonicalModel
  std::vector<std::int64_t> shape;  // outermost first; rows are the product of all but the last axis
  float added = 0.0F;               // to every number

  // The tensors whose rows follow one another: one, or several of one width and type that make one matrix.
  std::vector<const formats::TensorEntry*> parts;
  // Of the one part: which slice of its rows this is (all when count is 0); of a tensor of one axis, of its numbers.
  std::int64_t first_row = 0;
  std::int64_t row_count = 0;
  RowOrder order = RowOrder::as_stored;
  std::int64_t head_dim = 0;    // rows of one head, where the order is another
  std::int64_t rotary_dim = 0;  // the first of them, which rotate; the others stay in their places

  std::int64_t rows() const;
  std::int64_t width() const;         // numbers in a row; a tensor of one axis is one row
  tensor::DType stored_type() const;  // of the first part
  std::uint64_t elements() const;
  // The bytes of each row can be taken as they are: nothing is added, a tensor of one axis is not put into another
  // order, and the parts have one type.
  bool is_copy() const;

  // As stored. Only where is_copy().
  std::span<const std::byte> row_bytes(std::int64_t row) const;
  void decode_row(std::int64_t row, std::span<float> out) const;  // [width], `added` included

  // Gives back the memory of the mapped pages that were read: call it when the weight was written.
  void drop() const;

 private:
  std::int64_t source_row(std::int64_t row) const;  // of the parts, one after the other
  void decode_vector(std::span<float> out) const;
};

}  // namespace pastkv::models
