// Reads GGUF version 3 (and 2), whole or split. Every count and length is checked against the file before use.
// Source of the format: ggml/include/gguf.h of llama.cpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "formats/tensor_source.h"

namespace pastkv::formats {

// Numbers are widened: integers to int64 or uint64, floats to double. Arrays keep one element type.
// String arrays are views into the mapped file (a vocabulary has 10^5 entries; opening copies none of them).
using GgufValue =
    std::variant<bool, std::int64_t, std::uint64_t, double, std::string, std::vector<bool>, std::vector<std::int64_t>,
                 std::vector<std::uint64_t>, std::vector<double>, std::vector<std::string_view>>;

// One entry of the metadata as it lies in the file: for whoever writes it again.
struct GgufPair {
  std::string key;
  std::span<const std::byte> value;  // type and value; valid while the file is mapped
};

struct GgufFile {
  std::filesystem::path path;  // the (first) file
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::vector<GgufPair> pairs;  // the same, in the file's order
  TensorSource tensors;         // of all parts of a split file
  std::vector<std::shared_ptr<const MappedFile>> files;
  std::uint64_t file_bytes = 0;  // of all parts

  // Typed access. `find_*` gives nothing when the key is absent and throws Error naming file and key when it has
  // another type or does not fit; `require_*` throws when it is absent too.
  std::optional<std::int64_t> find_int(std::string_view key) const;
  std::optional<double> find_float(std::string_view key) const;
  std::optional<bool> find_bool(std::string_view key) const;
  std::optional<std::string> find_string(std::string_view key) const;
  const std::vector<std::string_view>* find_strings(std::string_view key) const;   // null when absent
  std::optional<std::vector<std::int64_t>> find_ints(std::string_view key) const;  // a scalar gives one element
  std::optional<std::vector<double>> find_floats(std::string_view key) const;
  std::int64_t require_int(std::string_view key) const;
  double require_float(std::string_view key) const;
  std::string require_string(std::string_view key) const;
};

// `path` may be any part of a split file (name-00001-of-0000N.gguf); the others are found beside it.
GgufFile read_gguf(const std::filesystem::path& path);

}  // namespace pastkv::formats
