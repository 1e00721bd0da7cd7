// The weight file of a Core ML package ("MIL blob storage", version 2): blobs of plain numbers, each with a record of
// 64 bytes before it. A program names a blob by the offset of its record. Source of the format:
// mlmodel/src/MILBlob/Blob/StorageFormat.hpp of coremltools.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "base/mapped_file.h"
#include "base/output.h"

namespace pastkv::formats::coreml {

// With the numbers that the file has for them.
enum class BlobType : std::uint32_t {
  float16 = 1,
  float32 = 2,
  uint8 = 3,
  int8 = 4,
  bfloat16 = 5,
  int16 = 6,
  uint16 = 7,
  int4 = 8,
  uint1 = 9,
  uint2 = 10,
  uint4 = 11,
  uint3 = 12,
  uint6 = 13,
  int32 = 14,
  uint32 = 15,
};

// Bits of one number; 0 when the type is none of the above. Numbers below 8 bits are packed, the first in the lowest
// bits.
unsigned bits(BlobType type);

// Writes blobs one after the other; the bytes of one may come in pieces.
class WeightBlobWriter {
 public:
  explicit WeightBlobWriter(OutputFile file);

  // The record of a new blob of `elements` numbers; its offset. The blob before it must be complete.
  std::uint64_t begin(BlobType type, std::uint64_t elements);
  void append(std::span<const std::byte> bytes);
  void commit();

 private:
  OutputFile file_;
  std::uint32_t count_ = 0;
  std::uint64_t missing_ = 0;  // bytes of the current blob
};

struct Blob {
  BlobType type;
  std::uint64_t elements;
  std::span<const std::byte> bytes;  // valid while the file lives
};

class WeightBlobFile {
 public:
  // Throws Error when the file has no header of version 2.
  explicit WeightBlobFile(const std::filesystem::path& path);

  // The blob whose record is at `offset`. Throws Error when there is none, or its data lies beyond the file.
  Blob at(std::uint64_t offset) const;

  const MappedFile& file() const { return *file_; }

 private:
  std::shared_ptr<const MappedFile> file_;
};

}  // namespace pastkv::formats::coreml
