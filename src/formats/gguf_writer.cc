#include "formats/gguf_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "base/error.h"
#include "formats/gguf_types.h"

namespace pastkv::formats {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kUsualAlignment = 32;  // what readers take without the key general.alignment
constexpr std::size_t kLongestName = 63;       // of a tensor: readers keep 64 bytes with a final zero
constexpr std::string_view kAlignmentKey = "general.alignment";
constexpr std::string_view kMagic = "GGUF";
constexpr std::uint32_t kVersion = 3;

// Types of values, as the format numbers them.
enum class ValueType : std::uint32_t { u16 = 2, u32 = 4, i32 = 5, f32 = 6, boolean = 7, string = 8, array = 9 };

template <typename Number>
void append(std::string& to, Number number) {
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  to.append(bytes, sizeof bytes);
}

void append_text(std::string& to, std::string_view text) {
  append(to, static_cast<std::uint64_t>(text.size()));
  to += text;
}

template <typename Number>
std::string scalar(ValueType type, Number number) {
  std::string value;
  append(value, type);
  append(value, number);
  return value;
}

std::string array_start(ValueType type, std::size_t count) {
  std::string value;
  append(value, ValueType::array);
  append(value, type);
  append(value, static_cast<std::uint64_t>(count));
  return value;
}

template <typename Number>
std::string number_array(ValueType type, std::span<const Number> numbers) {
  std::string value = array_start(type, numbers.size());
  for (const Number number : numbers) append(value, number);
  return value;
}

void append_info(std::string& to, const TensorSpec& tensor, std::uint64_t offset) {
  append_text(to, tensor.name);
  append(to, static_cast<std::uint32_t>(tensor.shape.size()));
  for (std::size_t i = tensor.shape.size(); i-- > 0;) append(to, tensor.shape[i]);
  append(to, gguf_type_number(tensor.dtype));
  append(to, offset);
}

std::uint64_t padded(std::uint64_t size, std::uint64_t alignment) {
  return (size + alignment - 1) / alignment * alignment;
}

std::string header_of(const GgufMetadata& metadata, std::span<const TensorSpec> tensors) {
  std::string header(kMagic);
  append(header, kVersion);
  append(header, static_cast<std::uint64_t>(tensors.size()));
  append(header, static_cast<std::uint64_t>(metadata.size()));
  header += metadata.encoded();
  std::uint64_t offset = 0;
  for (const TensorSpec& tensor : tensors) {
    append_info(header, tensor, offset);
    offset += padded(tensor.bytes(), metadata.alignment());
  }
  header.resize(padded(header.size(), metadata.alignment()));
  return header;
}

fs::path part_path(const fs::path& out, std::size_t number, std::size_t count) {
  if (count == 1) return out;
  return out.parent_path() / (out.stem().string() + part_suffix(number, count) + out.extension().string());
}

}  // namespace

std::string& GgufMetadata::slot(std::string_view key) {
  const auto found = std::ranges::find(pairs_, key, &std::pair<std::string, std::string>::first);
  return found != pairs_.end() ? found->second : pairs_.emplace_back(std::string(key), std::string()).second;
}

void GgufMetadata::set_bool(std::string_view key, bool value) {
  slot(key) = scalar(ValueType::boolean, static_cast<std::uint8_t>(value));
}
void GgufMetadata::set_u16(std::string_view key, std::uint16_t value) {
  slot(key) = scalar(ValueType::u16, value);
}
void GgufMetadata::set_u32(std::string_view key, std::uint32_t value) {
  slot(key) = scalar(ValueType::u32, value);
}
void GgufMetadata::set_i32(std::string_view key, std::int32_t value) {
  slot(key) = scalar(ValueType::i32, value);
}
void GgufMetadata::set_f32(std::string_view key, float value) {
  slot(key) = scalar(ValueType::f32, value);
}

void GgufMetadata::set_string(std::string_view key, std::string_view value) {
  std::string encoded;
  append(encoded, ValueType::string);
  append_text(encoded, value);
  slot(key) = std::move(encoded);
}

void GgufMetadata::set_bools(std::string_view key, const std::vector<bool>& values) {
  std::string encoded = array_start(ValueType::boolean, values.size());
  for (const bool value : values) encoded += static_cast<char>(value);
  slot(key) = std::move(encoded);
}

void GgufMetadata::set_i32s(std::string_view key, std::span<const std::int32_t> values) {
  slot(key) = number_array(ValueType::i32, values);
}
void GgufMetadata::set_f32s(std::string_view key, std::span<const float> values) {
  slot(key) = number_array(ValueType::f32, values);
}

void GgufMetadata::set_strings(std::string_view key, std::span<const std::string_view> values) {
  std::string encoded = array_start(ValueType::string, values.size());
  for (const std::string_view value : values) append_text(encoded, value);
  slot(key) = std::move(encoded);
}

void GgufMetadata::copy(const GgufPair& pair) {
  slot(pair.key).assign(reinterpret_cast<const char*>(pair.value.data()), pair.value.size());
}

void GgufMetadata::remove(std::string_view key) {
  std::erase_if(pairs_, [&](const auto& pair) { return pair.first == key; });
}

bool GgufMetadata::contains(std::string_view key) const {
  return std::ranges::find(pairs_, key, &std::pair<std::string, std::string>::first) != pairs_.end();
}

std::string GgufMetadata::encoded() const {
  std::string all;
  for (const auto& [key, value] : pairs_) {
    append_text(all, key);
    all += value;
  }
  return all;
}

std::uint64_t GgufMetadata::alignment() const {
  const auto found = std::ranges::find(pairs_, kAlignmentKey, &std::pair<std::string, std::string>::first);
  std::uint32_t alignment = 0;
  if (found == pairs_.end() || found->second.size() != 2 * sizeof alignment) return kUsualAlignment;
  std::memcpy(&alignment, found->second.data() + sizeof alignment, sizeof alignment);
  return alignment;
}

GgufWriter::GgufWriter(const fs::path& out, bool replace, const GgufMetadata& metadata, std::vector<TensorSpec> tensors,
                       std::uint64_t split_size)
    : tensors_(std::move(tensors)), alignment_(metadata.alignment()) {
  for (const TensorSpec& tensor : tensors_) {
    if (tensor.name.size() <= kLongestName) continue;
    throw Error({.file = out.string(),
                 .place = "tensor " + tensor.name.substr(0, kLongestName) + "...",
                 .reason = fmt::format("has a name of {} bytes, readers take {}", tensor.name.size(), kLongestName),
                 .remedy = {}});
  }
  const std::vector<std::size_t> counts = split_into_files(tensors_, split_size);
  std::size_t first = 0;
  for (std::size_t part = 0; part < counts.size(); ++part) {
    GgufMetadata own = part == 0 ? metadata : GgufMetadata();
    if (part > 0 && metadata.contains(kAlignmentKey))
      own.set_u32(kAlignmentKey, static_cast<std::uint32_t>(alignment_));
    for (const std::string_view key : {"split.no", "split.count", "split.tensors.count"}) own.remove(key);
    if (counts.size() > 1) {
      own.set_u16("split.no", static_cast<std::uint16_t>(part));
      own.set_u16("split.count", static_cast<std::uint16_t>(counts.size()));
      own.set_i32("split.tensors.count", static_cast<std::int32_t>(tensors_.size()));
    }
    paths_.push_back(part_path(out, part, counts.size()));
    files_.emplace_back(paths_.back(), replace);
    files_.back().write(header_of(own, std::span(tensors_).subspan(first, counts[part])));
    file_of_.insert(file_of_.end(), counts[part], part);
    first += counts[part];
  }
  if (!tensors_.empty()) missing_ = tensors_.front().bytes();
}

void GgufWriter::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  if (tensor_ == tensors_.size() || bytes.size() > missing_) throw std::logic_error("more bytes than the tensors have");
  OutputFile& file = files_[file_of_[tensor_]];
  file.write(bytes);
  missing_ -= bytes.size();
  if (missing_ != 0) return;
  file.pad_to(alignment_);
  ++tensor_;
  if (tensor_ < tensors_.size()) missing_ = tensors_[tensor_].bytes();
}

std::uint64_t GgufWriter::size() const {
  std::uint64_t total = 0;
  for (const OutputFile& file : files_) total += file.size();
  return total;
}

std::vector<fs::path> GgufWriter::commit() {
  if (tensor_ != tensors_.size()) throw std::logic_error("fewer bytes than the tensors have");
  for (OutputFile& file : files_) file.commit();
  return paths_;
}

}  // namespace pastkv::formats
