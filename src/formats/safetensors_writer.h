// Writes safetensors: one file, or shards with an index. Headers come first, since every size is known; then the bytes
// of each tensor, as they are handed over.
// Source of the format: github.com/huggingface/safetensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/output.h"
#include "formats/tensor_spec.h"

namespace pastkv::formats {

// Readers refuse headers beyond this many bytes.
inline constexpr std::uint64_t kLongestSafetensorsHeader = 100'000'000;

class SafetensorsWriter {
 public:
  // Into `folder`: model.safetensors, or model-00001-of-0000N.safetensors and so on with
  // model.safetensors.index.json where the tensors are more than `shard_size` bytes (0: one file). Throws Error when a
  // header would be longer than readers take, std::logic_error for a type that the format has not.
  SafetensorsWriter(const OutputFolder& folder, std::vector<TensorSpec> tensors, std::uint64_t shard_size);

  // The next bytes of the tensors, which follow one another in the order of the list. A call may end inside a tensor,
  // and goes beyond none.
  void write(std::span<const std::byte> bytes);
  // When everything was written: closes the last file, writes the index. Gives the names of the files.
  std::vector<std::string> finish();

 private:
  void open_next();
  void close_file();

  const OutputFolder* folder_;
  std::vector<TensorSpec> tensors_;
  std::vector<std::size_t> counts_;  // tensors in each file
  std::vector<std::string> names_;   // of the files
  std::vector<OutputFile> file_;     // the one being written, if any
  std::size_t next_file_ = 0;
  std::size_t next_tensor_ = 0;  // the first one of the next file
  std::uint64_t missing_ = 0;    // bytes of the open file not yet written
};

}  // namespace pastkv::formats
