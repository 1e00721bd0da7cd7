#include "formats/coreml/weight_blob.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "formats/names.h"

namespace pastkv::formats::coreml {
namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint32_t kVersion = 2;
constexpr std::uint32_t kSentinel = 0xDEADBEEF;

struct Header {
  std::uint32_t count = 0;
  std::uint32_t version = kVersion;
  std::array<std::uint64_t, 7> reserved{};
};
static_assert(sizeof(Header) == kAlignment);

struct Record {
  std::uint32_t sentinel = kSentinel;
  std::uint32_t type = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;       // of the data, from the start of the file
  std::uint64_t unused_bits = 0;  // in the last byte
  std::array<std::uint64_t, 4> reserved{};
};
static_assert(sizeof(Record) == kAlignment);
static_assert(std::endian::native == std::endian::little);

template <typename Struct>
std::span<const std::byte> as_bytes(const Struct& of) {
  return std::as_bytes(std::span(&of, 1));
}

}  // namespace

unsigned bits(BlobType type) {
  switch (type) {
    case BlobType::uint1:
      return 1;
    case BlobType::uint2:
      return 2;
    case BlobType::uint3:
      return 3;
    case BlobType::int4:
    case BlobType::uint4:
      return 4;
    case BlobType::uint6:
      return 6;
    case BlobType::uint8:
    case BlobType::int8:
      return 8;
    case BlobType::float16:
    case BlobType::bfloat16:
    case BlobType::int16:
    case BlobType::uint16:
      return 16;
    case BlobType::float32:
    case BlobType::int32:
    case BlobType::uint32:
      return 32;
  }
  return 0;
}

WeightBlobWriter::WeightBlobWriter(OutputFile file) : file_(std::move(file)) {
  file_.write(as_bytes(Header{}));
}

std::uint64_t WeightBlobWriter::begin(BlobType type, std::uint64_t elements) {
  if (missing_ != 0) throw std::logic_error(fmt::format("the blob before lacks {} bytes", missing_));
  const auto size = checked_multiply(elements, bits(type));
  if (!size || *size > ~std::uint64_t{0} - 7) throw std::logic_error("a blob of more than 2^64 bits");
  file_.pad_to(kAlignment);
  const std::uint64_t at = file_.size();
  Record record;
  record.type = static_cast<std::uint32_t>(type);
  record.bytes = (*size + 7) / 8;
  record.offset = at + sizeof record;
  record.unused_bits = record.bytes * 8 - *size;
  file_.write(as_bytes(record));
  missing_ = record.bytes;
  ++count_;
  return at;
}

void WeightBlobWriter::append(std::span<const std::byte> bytes) {
  if (bytes.size() > missing_) throw std::logic_error("more bytes than the blob has");
  file_.write(bytes);
  missing_ -= bytes.size();
}

void WeightBlobWriter::commit() {
  if (missing_ != 0) throw std::logic_error(fmt::format("the last blob lacks {} bytes", missing_));
  file_.pad_to(kAlignment);
  Header header;
  header.count = count_;
  file_.write_at(0, as_bytes(header));
  file_.commit();
}

WeightBlobFile::WeightBlobFile(const std::filesystem::path& path) : file_(open_weights(path)) {
  const auto bytes = file_->bytes();
  const auto fail = [&](std::string reason) {
    throw Error({.file = path.string(), .place = "header", .reason = std::move(reason), .remedy = "copy it again"});
  };
  Header header;
  if (bytes.size() < sizeof header) {
    fail(fmt::format("the file has {} bytes, a header has {}", bytes.size(), sizeof header));
  }
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.version != kVersion) fail(fmt::format("version {}, wanted {}", header.version, kVersion));
}

Blob WeightBlobFile::at(std::uint64_t offset) const {
  const auto bytes = file_->bytes();
  const auto fail = [&](std::string reason) {
    throw Error({.file = file_->path().string(),
                 .place = fmt::format("blob at byte {}", offset),
                 .reason = std::move(reason),
                 .remedy = "copy it again"});
  };
  Record record;
  if (offset % kAlignment != 0) fail(fmt::format("is not at a multiple of {}", kAlignment));
  if (offset < sizeof(Header) || bytes.size() < sizeof record || offset > bytes.size() - sizeof record) {
    fail(fmt::format("lies beyond the file of {} bytes", bytes.size()));
  }
  std::memcpy(&record, bytes.data() + offset, sizeof record);
  if (record.sentinel != kSentinel) fail(fmt::format("is no record: {:#x}, wanted {:#x}", record.sentinel, kSentinel));
  const auto type = static_cast<BlobType>(record.type);
  const unsigned width = bits(type);
  if (width == 0) fail(fmt::format("has type {}, which is not known", record.type));
  if (record.offset > bytes.size() || record.bytes > bytes.size() - record.offset) {
    fail(fmt::format("{} bytes from byte {} on lie beyond the file of {}", record.bytes, record.offset, bytes.size()));
  }
  // Below 2^61 after the check above, so that the bits can be counted.
  const std::uint64_t held = record.bytes * 8;
  if (record.unused_bits >= 8 || record.unused_bits > held || (held - record.unused_bits) % width != 0) {
    fail(fmt::format("{} bytes less {} bits are no whole number of {} bits", record.bytes, record.unused_bits, width));
  }
  return {.type = type,
          .elements = (held - record.unused_bits) / width,
          .bytes = bytes.subspan(record.offset, record.bytes)};
}

}  // namespace pastkv::formats::coreml
