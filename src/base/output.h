// Output that appears whole or not at all: written beside its place, flushed to the disk, then moved there by rename.
// What stood there before stays until that moment. A program that fails, or is stopped by SIGINT or SIGTERM
// (interrupt.h), leaves nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace pastkv {

// A file being written, front to back. Errors name the place it is meant for, and say so when the disk is full.
class OutputFile {
 public:
  // Throws Error when `target` exists and `replace` is false, or its folder cannot be written to.
  OutputFile(std::filesystem::path target, bool replace);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();  // removes what was not committed

  void write(std::span<const std::byte> bytes);                           // at the end
  void write(std::string_view text);                                      // at the end
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);  // over what was written already
  void pad_to(std::uint64_t alignment);                                   // zeros up to the next multiple
  std::uint64_t size() const;                                             // written so far
  void commit();                                                          // nothing may be written afterwards

 private:
  friend class OutputFolder;
  // `shown` is the place that errors name.
  OutputFile(std::filesystem::path target, std::filesystem::path shown, bool replace);

  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// A folder being filled. Files in it are OutputFiles at paths below `path()`, which is not yet its final place.
class OutputFolder {
 public:
  // Throws Error when `target` exists and is not an empty folder and `replace` is false, or when it holds the current
  // directory.
  OutputFolder(std::filesystem::path target, bool replace);
  OutputFolder(OutputFolder&& other) noexcept;
  OutputFolder& operator=(OutputFolder&&) = delete;
  ~OutputFolder();

  const std::filesystem::path& path() const;                 // where it is filled
  OutputFile file(const std::filesystem::path& name) const;  // a new file, with the folders that `name` goes through
  void commit();                                             // moves the whole to its place, at once

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Throws Error when the file system that will hold `target` has less than `bytes` free; says both numbers.
void require_space(const std::filesystem::path& target, std::uint64_t bytes);

}  // namespace pastkv
