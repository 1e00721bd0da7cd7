// A whole file, read-only, in memory by mmap: opening costs no copy, and pages come in as they are touched.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace pastkv {

// Shared: every view into the bytes keeps a `std::shared_ptr<const MappedFile>` alive beside it.
class MappedFile {
 public:
  // Throws Error when the file is missing, is no regular file, or cannot be mapped. An empty file maps to no bytes.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::filesystem::path& path() const { return path_; }

  // Gives back the memory of pages that hold `part`, which lies in bytes(); they come in again when they are touched.
  // Whoever goes through a large file once keeps its resident memory small so.
  void drop(std::span<const std::byte> part) const;

 private:
  MappedFile(std::filesystem::path path, std::span<const std::byte> bytes) : path_(std::move(path)), bytes_(bytes) {}

  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace pastkv
