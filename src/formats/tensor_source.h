// What every weight container has in common: named tensors whose bytes lie in mapped files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mapped_file.h"
#include "tensor/dtype.h"

namespace pastkv::formats {

struct TensorEntry {
  std::string name;
  tensor::DType dtype;
  std::vector<std::int64_t> shape;         // outermost first, as Hugging Face writes it (GGUF's order is turned round)
  std::span<const std::byte> bytes;        // exactly the tensor's bytes; valid while `file` lives
  std::shared_ptr<const MappedFile> file;  // where they lie
  bool unlisted = false;                   // in a shard whose index does not name it: fine when no model needs it

  std::int64_t elements() const;
};

// Tensors of one model, whatever number of files they lie in. Names are unique.
class TensorSource {
 public:
  // Throws Error on a duplicate name.
  void add(TensorEntry entry);

  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  const TensorEntry* find(std::string_view name) const;  // null when absent
  void set_unlisted(std::string_view name);              // see TensorEntry; nothing when absent
  std::uint64_t total_bytes() const;

 private:
  std::vector<TensorEntry> tensors_;
  std::unordered_map<std::string, std::size_t> index_;
};

}  // namespace pastkv::formats
