// Reads little-endian numbers and strings, one after the other, from bytes that nobody has checked yet.
// No read goes past the end: it throws Error with the field, what it asks for and the size of the file.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace pastkv {

static_assert(std::endian::native == std::endian::little, "files are little-endian and are read as they lie");

// A view: `bytes` must outlive the reader, and every string that it hands out.
class ByteReader {
 public:
  // `file` is named in errors.
  ByteReader(std::span<const std::byte> bytes, std::string file) : bytes_(bytes), file_(std::move(file)) {}

  std::uint64_t position() const { return position_; }
  std::uint64_t remaining() const { return bytes_.size() - position_; }
  std::uint64_t size() const { return bytes_.size(); }
  const std::string& file() const { return file_; }

  // `field` says in errors what is read: "metadata key general.name".
  template <typename Number>
    requires std::is_arithmetic_v<Number>
  Number number(std::string_view field) {
    Number value;
    std::memcpy(&value, take(sizeof value, field), sizeof value);
    return value;
  }

  // The next `length` bytes as they lie in the file.
  std::string_view text(std::uint64_t length, std::string_view field) {
    return {reinterpret_cast<const char*>(take(length, field)), static_cast<std::size_t>(length)};
  }

 private:
  const std::byte* take(std::uint64_t length, std::string_view field) {
    if (length > remaining()) fail(length, field);
    const std::byte* start = bytes_.data() + position_;
    position_ += length;
    return start;
  }

  [[noreturn]] void fail(std::uint64_t length, std::string_view field) const;

  std::span<const std::byte> bytes_;
  std::string file_;
  std::uint64_t position_ = 0;  // never beyond the end
};

}  // namespace pastkv
