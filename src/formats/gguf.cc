#include "formats/gguf.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "formats/gguf_part.h"
#include "formats/names.h"

namespace pastkv::formats {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, std::string place, std::string reason,
                       std::string remedy = {}) {
  throw Error(
      {.file = path.string(), .place = std::move(place), .reason = std::move(reason), .remedy = std::move(remedy)});
}

[[noreturn]] void fail_key(const GgufFile& file, std::string_view key, std::string reason) {
  fail(file.path, "metadata key " + shown(key), std::move(reason), "the file was written wrongly: get another copy");
}

const char* kind_of(const GgufValue& value) {
  static constexpr const char* kKinds[] = {
      "a truth value",      "a signed integer",         "an unsigned integer",         "a float",
      "a string",           "an array of truth values", "an array of signed integers", "an array of unsigned integers",
      "an array of floats", "an array of strings"};
  static_assert(std::size(kKinds) == std::variant_size_v<GgufValue>);
  return kKinds[value.index()];
}

const GgufValue* value_of(const GgufFile& file, std::string_view key) {
  const auto found = file.metadata.find(key);
  return found == file.metadata.end() ? nullptr : &found->second;
}

template <typename Wanted>
const Wanted* find_exact(const GgufFile& file, std::string_view key, const char* wanted) {
  const GgufValue* value = value_of(file, key);
  if (value == nullptr) return nullptr;
  const auto* held = std::get_if<Wanted>(value);
  if (held == nullptr) fail_key(file, key, fmt::format("holds {}, not {}", kind_of(*value), wanted));
  return held;
}

std::int64_t to_int(const GgufFile& file, std::string_view key, std::uint64_t value) {
  if (value > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
    fail_key(file, key, fmt::format("{} is too large", value));
  }
  return static_cast<std::int64_t>(value);
}

template <typename Value>
Value require(const GgufFile& file, std::string_view key, std::optional<Value> value) {
  if (!value) fail(file.path, "metadata key " + shown(key), "is missing", "get another conversion of the model");
  return *std::move(value);
}

// "-00001-of-00003.gguf"
std::string split_suffix(std::int64_t number, std::int64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", number + 1, count);
}

GgufFile as_file(const std::filesystem::path& path, GgufPart part) {
  GgufFile file;
  file.path = path;
  file.metadata = std::move(part.metadata);
  file.pairs = std::move(part.pairs);
  for (TensorEntry& entry : part.tensors) file.tensors.add(std::move(entry));
  file.file_bytes = part.file->bytes().size();
  file.files.push_back(std::move(part.file));
  return file;
}

std::vector<std::filesystem::path> split_paths(const GgufFile& any, std::int64_t number, std::int64_t count) {
  const std::string name = any.path.filename().string();
  const std::string suffix = split_suffix(number, count);
  if (!name.ends_with(suffix)) {
    fail(any.path, {},
         fmt::format("is part {} of a model split in {}, but its name does not end in {}", number + 1, count, suffix),
         "give all parts their own names again");
  }
  const std::string stem = name.substr(0, name.size() - suffix.size());
  std::vector<std::filesystem::path> paths;
  std::vector<std::string> missing;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::string part = stem + split_suffix(i, count);
    paths.push_back(any.path.parent_path() / part);
    std::error_code ignored;
    if (!std::filesystem::exists(paths.back(), ignored)) missing.push_back(part);
  }
  if (!missing.empty()) {
    fail(any.path, {},
         fmt::format("is one of {} parts, of which {} are missing: {}", count, missing.size(), shown_list(missing)),
         "download the missing parts into the same folder");
  }
  return paths;
}

// Metadata is that of the first part; the others hold nothing beside what says that they are parts.
GgufFile read_split(const GgufFile& any, std::int64_t number, std::int64_t count) {
  const std::vector<std::filesystem::path> paths = split_paths(any, number, count);
  GgufFile whole;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::filesystem::path& path = paths[static_cast<std::size_t>(i)];
    GgufFile part = as_file(path, read_gguf_part(path));
    const std::int64_t own_number = part.require_int("split.no");
    const std::int64_t own_count = part.require_int("split.count");
    if (own_number != i || own_count != count) {
      fail(path, {},
           fmt::format("says it is part {} of {}, its name says {} of {}", own_number + 1, own_count, i + 1, count),
           "the parts belong to different models: download them again");
    }
    if (i == 0) {
      whole = std::move(part);
      continue;
    }
    for (const TensorEntry& entry : part.tensors.tensors()) whole.tensors.add(entry);
    whole.file_bytes += part.file_bytes;
    whole.files.push_back(part.files.front());
  }
  const auto tensors = whole.find_int("split.tensors.count");
  if (tensors && *tensors != static_cast<std::int64_t>(whole.tensors.tensors().size())) {
    fail(whole.path, "metadata key split.tensors.count",
         fmt::format("is {}, the parts hold {}", *tensors, whole.tensors.tensors().size()),
         "the parts belong to different models: download them again");
  }
  return whole;
}

}  // namespace

std::optional<std::int64_t> GgufFile::find_int(std::string_view key) const {
  const GgufValue* value = value_of(*this, key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<std::int64_t>(value)) return *number;
  if (const auto* number = std::get_if<std::uint64_t>(value)) return to_int(*this, key, *number);
  fail_key(*this, key, fmt::format("holds {}, not an integer", kind_of(*value)));
}

std::optional<double> GgufFile::find_float(std::string_view key) const {
  const GgufValue* value = value_of(*this, key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<double>(value)) return *number;
  if (const auto* number = std::get_if<std::int64_t>(value)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<std::uint64_t>(value)) return static_cast<double>(*number);
  fail_key(*this, key, fmt::format("holds {}, not a number", kind_of(*value)));
}

std::optional<bool> GgufFile::find_bool(std::string_view key) const {
  const bool* value = find_exact<bool>(*this, key, "a truth value");
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::optional<std::string> GgufFile::find_string(std::string_view key) const {
  const auto* value = find_exact<std::string>(*this, key, "a string");
  return value == nullptr ? std::nullopt : std::optional(*value);
}

const std::vector<std::string_view>* GgufFile::find_strings(std::string_view key) const {
  return find_exact<std::vector<std::string_view>>(*this, key, "an array of strings");
}

std::optional<std::vector<std::int64_t>> GgufFile::find_ints(std::string_view key) const {
  const GgufValue* value = value_of(*this, key);
  if (value == nullptr) return std::nullopt;
  if (const auto* numbers = std::get_if<std::vector<std::int64_t>>(value)) return *numbers;
  if (const auto* numbers = std::get_if<std::vector<std::uint64_t>>(value)) {
    std::vector<std::int64_t> converted;
    converted.reserve(numbers->size());
    for (const std::uint64_t number : *numbers) converted.push_back(to_int(*this, key, number));
    return converted;
  }
  if (std::holds_alternative<std::int64_t>(*value) || std::holds_alternative<std::uint64_t>(*value)) {
    return std::vector{*find_int(key)};
  }
  fail_key(*this, key, fmt::format("holds {}, not integers", kind_of(*value)));
}

std::optional<std::vector<double>> GgufFile::find_floats(std::string_view key) const {
  const GgufValue* value = value_of(*this, key);
  if (value == nullptr) return std::nullopt;
  if (const auto* numbers = std::get_if<std::vector<double>>(value)) return *numbers;
  if (std::holds_alternative<double>(*value)) return std::vector{std::get<double>(*value)};
  fail_key(*this, key, fmt::format("holds {}, not floats", kind_of(*value)));
}

std::int64_t GgufFile::require_int(std::string_view key) const {
  return require(*this, key, find_int(key));
}

double GgufFile::require_float(std::string_view key) const {
  return require(*this, key, find_float(key));
}

std::string GgufFile::require_string(std::string_view key) const {
  return require(*this, key, find_string(key));
}

GgufFile read_gguf(const std::filesystem::path& path) {
  GgufFile file = as_file(path, read_gguf_part(path));
  const std::int64_t count = file.find_int("split.count").value_or(1);
  if (count == 0 || count == 1) return file;
  const std::int64_t number = file.require_int("split.no");
  constexpr std::int64_t kMostParts = 99999;  // what the five digits of a part's name can say
  if (count < 0 || count > kMostParts || number < 0 || number >= count) {
    fail(path, "metadata key split.no", fmt::format("part {} of {} cannot be", number, count),
         "the file was written wrongly: get another copy");
  }
  return read_split(file, number, count);
}

}  // namespace pastkv::formats
