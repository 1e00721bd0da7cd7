// Writes GGUF version 3: one file, or parts. Metadata and the list of tensors come first, since every size is known;
// then the bytes of each tensor, as they are handed over.
// Source of the format: ggml/include/gguf.h of llama.cpp; of parts, its tools/gguf-split.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/output.h"
#include "formats/gguf.h"
#include "formats/tensor_spec.h"

namespace pastkv::formats {

// Metadata to be written, in the order in which keys were first set. Setting a key again changes its value.
class GgufMetadata {
 public:
  void set_bool(std::string_view key, bool value);
  void set_u16(std::string_view key, std::uint16_t value);
  void set_u32(std::string_view key, std::uint32_t value);
  void set_i32(std::string_view key, std::int32_t value);
  void set_f32(std::string_view key, float value);
  void set_string(std::string_view key, std::string_view value);
  void set_bools(std::string_view key, const std::vector<bool>& values);
  void set_i32s(std::string_view key, std::span<const std::int32_t> values);
  void set_f32s(std::string_view key, std::span<const float> values);
  void set_strings(std::string_view key, std::span<const std::string_view> values);
  void copy(const GgufPair& pair);
  void remove(std::string_view key);
  bool contains(std::string_view key) const;

  std::size_t size() const { return pairs_.size(); }
  std::uint64_t alignment() const;  // of tensors: general.alignment, 32 without it
  std::string encoded() const;      // all pairs, as they stand in a file

 private:
  std::string& slot(std::string_view key);

  std::vector<std::pair<std::string, std::string>> pairs_;  // key, and its type and value as they stand in a file
};

class GgufWriter {
 public:
  // Writes `out`, or where the tensors are split name-00001-of-0000N.gguf and so on beside it. Throws Error when a
  // file exists and may not be replaced, or a tensor's name is longer than readers take; std::logic_error for a type
  // that the format has not.
  GgufWriter(const std::filesystem::path& out, bool replace, const GgufMetadata& metadata,
             std::vector<TensorSpec> tensors, std::uint64_t split_size);

  // The next bytes of the tensors, which follow one another in the order of the list. A call may end inside a tensor,
  // and goes beyond none.
  void write(std::span<const std::byte> bytes);
  // When everything was written: puts the files into their places. Gives their paths.
  std::vector<std::filesystem::path> commit();
  std::uint64_t size() const;  // of all files, so far

 private:
  std::vector<std::filesystem::path> paths_;
  std::vector<OutputFile> files_;
  std::vector<TensorSpec> tensors_;
  std::vector<std::size_t> file_of_;  // by tensor
  std::uint64_t alignment_;
  std::size_t tensor_ = 0;     // the one being written
  std::uint64_t missing_ = 0;  // of its bytes
};

}  // namespace pastkv::formats
