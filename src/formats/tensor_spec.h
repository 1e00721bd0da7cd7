// A tensor that is still to be written, and how many tensors go into which file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace pastkv::formats {

struct TensorSpec {
  std::string name;
  tensor::DType dtype = tensor::DType::f32;
  std::vector<std::int64_t> shape;  // outermost first

  std::uint64_t bytes() const;
};

// How many of the tensors each file gets, in order: as many as fit into `limit` bytes, at least one; 0: one file for
// all.
std::vector<std::size_t> split_into_files(const std::vector<TensorSpec>& tensors, std::uint64_t limit);

// "-00001-of-00003", counted from 1.
std::string part_suffix(std::size_t number, std::size_t count);

}  // namespace pastkv::formats
