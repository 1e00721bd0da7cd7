#include "formats/tensor_spec.h"

#include <fmt/format.h>

#include <stdexcept>

namespace pastkv::formats {

std::uint64_t TensorSpec::bytes() const {
  std::uint64_t elements = 1;
  for (const std::int64_t size : shape) elements *= static_cast<std::uint64_t>(size);
  const auto size = tensor::byte_size(dtype, elements);
  if (!size) throw std::logic_error(name + " is no whole number of blocks");
  return *size;
}

std::vector<std::size_t> split_into_files(const std::vector<TensorSpec>& tensors, std::uint64_t limit) {
  std::vector<std::size_t> counts = {0};
  std::uint64_t filled = 0;
  for (const TensorSpec& tensor : tensors) {
    const std::uint64_t bytes = tensor.bytes();
    if (limit != 0 && counts.back() > 0 && (filled > limit || bytes > limit - filled)) {
      counts.push_back(0);
      filled = 0;
    }
    ++counts.back();
    filled += bytes;
  }
  return counts;
}

std::string part_suffix(std::size_t number, std::size_t count) {
  return fmt::format("-{:05}-of-{:05}", number + 1, count);
}

}  // namespace pastkv::formats
