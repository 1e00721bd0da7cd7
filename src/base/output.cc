#include "base/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/interrupt.h"

namespace pastkv {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBuffer = 1U << 20U;
// Written pages are sent to the disk while more are made, so that the flush at the end finds little left to do.
constexpr std::uint64_t kFlushStep = 32U << 20U;

[[noreturn]] void fail(const fs::path& shown, std::string reason, std::string remedy = {}) {
  throw Error({.file = shown.string(), .place = {}, .reason = std::move(reason), .remedy = std::move(remedy)});
}

// What `error`, an errno, says about writing to `shown`.
[[noreturn]] void fail_errno(const fs::path& shown, std::string_view doing, int error) {
  const std::string reason = fmt::format("{}: {}", doing, std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) fail(shown, reason, "free some space, or write to another disk");
  if (error == EFBIG) fail(shown, reason, "the file system or a limit of this session allows no larger file");
  if (error == EACCES || error == EROFS || error == EPERM) fail(shown, reason, "write to another folder");
  fail(shown, reason);
}

// "out/" and "out" are one place.
fs::path without_slash(fs::path path) {
  return path.has_filename() || !path.has_parent_path() ? path : path.parent_path();
}

fs::path folder_of(const fs::path& target) {
  return target.has_parent_path() ? target.parent_path() : fs::path(".");
}

// A name beside `target` that no other call and no other process uses.
fs::path beside(const fs::path& target) {
  static std::atomic<unsigned> number{0};
  return folder_of(target) /
         fmt::format(".{}.partial-{}-{}", target.filename().string(), ::getpid(), number.fetch_add(1));
}

void flush_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY);
  if (fd < 0) return;
  ::fsync(fd);  // some file systems cannot: then there is nothing more to do
  ::close(fd);
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

enum class MoveRule : std::uint8_t { no_replace, exchange };

// Moves by one system call, or says by errno why not: ENOSYS where the system has none such.
int move_by(MoveRule rule, const fs::path& from, const fs::path& to) {
#if defined(RENAME_NOREPLACE) && defined(RENAME_EXCHANGE)
  const unsigned flags = rule == MoveRule::exchange ? RENAME_EXCHANGE : RENAME_NOREPLACE;
  return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0 ? 0 : errno;
#else
  static_cast<void>(rule), static_cast<void>(from), static_cast<void>(to);
  return ENOSYS;
#endif
}

bool is_unsupported(int error) {
  return error == ENOSYS || error == EINVAL || error == ENOTSUP;
}

[[noreturn]] void fail_exists(const fs::path& shown) {
  fail(shown, "exists already", "use --force to replace it, or write to another place");
}

}  // namespace

struct OutputFile::Parts {
  fs::path target;
  fs::path shown;
  fs::path partial;
  bool replace = false;
  int fd = -1;
  std::vector<std::byte> buffer;  // what stands at the end and was not yet given to the system
  std::uint64_t given = 0;        // to the system
  std::uint64_t sent = 0;         // of that, on its way to the disk

  void give(std::span<const std::byte> bytes, std::uint64_t offset) const {
    while (!bytes.empty()) {
      const ssize_t count = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (count < 0) {
        if (errno == EINTR) continue;
        fail_errno(shown, fmt::format("cannot be written beyond {} bytes", offset), errno);
      }
      bytes = bytes.subspan(static_cast<std::size_t>(count));
      offset += static_cast<std::uint64_t>(count);
    }
  }

  void append(std::span<const std::byte> bytes) {
    give(bytes, given);
    given += bytes.size();
#ifdef SYNC_FILE_RANGE_WRITE
    if (given - sent < kFlushStep) return;
    ::sync_file_range(fd, static_cast<off_t>(sent), static_cast<off_t>(given - sent), SYNC_FILE_RANGE_WRITE);
    sent = given;
#endif
  }

  void empty_buffer() {
    append(buffer);
    buffer.clear();
  }
};

OutputFile::OutputFile(fs::path target, bool replace) : OutputFile(target, target, replace) {}

OutputFile::OutputFile(fs::path target, fs::path shown, bool replace) : parts_(std::make_unique<Parts>()) {
  std::error_code ignored;
  if (!target.has_filename() || fs::is_directory(target, ignored))
    fail(shown, "is a folder", "give the name of a file");
  if (!replace && is_there(target)) fail_exists(shown);
  parts_->partial = beside(target);
  parts_->target = std::move(target);
  parts_->shown = std::move(shown);
  parts_->replace = replace;
  parts_->fd = ::open(parts_->partial.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (parts_->fd < 0) {
    const int error = errno;
    if (error == ENOENT) fail(parts_->shown, "cannot be made: its folder does not exist", "make the folder first");
    fail_errno(parts_->shown, "cannot be made", error);
  }
  parts_->buffer.reserve(kBuffer);
}

OutputFile::OutputFile(OutputFile&& other) noexcept = default;

OutputFile::~OutputFile() {
  if (parts_ == nullptr || parts_->fd < 0) return;
  ::close(parts_->fd);
  ::unlink(parts_->partial.c_str());
}

void OutputFile::write(std::span<const std::byte> bytes) {
  check_interrupt();
  if (bytes.size() >= kBuffer) {
    parts_->empty_buffer();
    parts_->append(bytes);
    return;
  }
  if (parts_->buffer.size() + bytes.size() > kBuffer) parts_->empty_buffer();
  parts_->buffer.insert(parts_->buffer.end(), bytes.begin(), bytes.end());
}

void OutputFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text.data(), text.size())));
}

void OutputFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  check_interrupt();
  parts_->empty_buffer();
  parts_->give(bytes, offset);
}

void OutputFile::pad_to(std::uint64_t alignment) {
  static constexpr std::byte kZeros[4096] = {};
  std::uint64_t missing = (alignment - size() % alignment) % alignment;
  while (missing > 0) {
    const std::uint64_t count = std::min<std::uint64_t>(missing, sizeof kZeros);
    write(std::span(kZeros).first(static_cast<std::size_t>(count)));
    missing -= count;
  }
}

std::uint64_t OutputFile::size() const {
  return parts_->given + parts_->buffer.size();
}

void OutputFile::commit() {
  Parts& parts = *parts_;
  parts.empty_buffer();
  if (::fsync(parts.fd) != 0) fail_errno(parts.shown, "cannot be brought to the disk", errno);
  int error = 0;
  if (!parts.replace) {
    error = move_by(MoveRule::no_replace, parts.partial, parts.target);
    if (error == EEXIST) fail_exists(parts.shown);
  }
  if (parts.replace || is_unsupported(error)) {
    if (!parts.replace && is_there(parts.target)) fail_exists(parts.shown);
    error = ::rename(parts.partial.c_str(), parts.target.c_str()) == 0 ? 0 : errno;
  }
  if (error != 0) fail_errno(parts.shown, "cannot be moved to its place", error);
  ::close(std::exchange(parts.fd, -1));
  flush_folder(folder_of(parts.target));
}

struct OutputFolder::Parts {
  fs::path target;
  fs::path partial;
  bool replace = false;
  bool committed = false;
};

namespace {

bool is_empty_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(fs::symlink_status(path, error)) && fs::is_empty(path, error);
}

// True when `folder` is the current directory or one that it lies in.
bool holds_current_directory(const fs::path& folder) {
  std::error_code error;
  for (fs::path at = fs::current_path(error); !at.empty(); at = at.parent_path()) {
    if (fs::equivalent(at, folder, error)) return true;
    if (at == at.parent_path()) break;
  }
  return false;
}

// Without a system call that exchanges two names: what stood in the place steps aside, and back if the move fails.
void exchange_by_hand(const fs::path& partial, const fs::path& target) {
  const fs::path aside = beside(target);
  if (::rename(target.c_str(), aside.c_str()) != 0) fail_errno(target, "cannot be replaced", errno);
  if (::rename(partial.c_str(), target.c_str()) != 0) {
    const int error = errno;
    static_cast<void>(::rename(aside.c_str(), target.c_str()));
    fail_errno(target, "cannot be moved to its place", error);
  }
  static_cast<void>(::rename(aside.c_str(), partial.c_str()));
}

}  // namespace

OutputFolder::OutputFolder(fs::path target, bool replace) : parts_(std::make_unique<Parts>()) {
  target = without_slash(std::move(target));
  if (is_there(target) && !is_empty_folder(target)) {
    if (!replace) fail_exists(target);
    if (holds_current_directory(target)) fail(target, "holds the current directory", "write to another place");
  }
  const fs::path partial = beside(target);
  if (::mkdir(partial.c_str(), 0777) != 0) {
    const int error = errno;
    if (error == ENOENT) fail(target, "cannot be made: the folder it lies in does not exist", "make that first");
    fail_errno(target, "cannot be made", error);
  }
  parts_->target = std::move(target);
  parts_->partial = partial;
  parts_->replace = replace;
}

OutputFolder::OutputFolder(OutputFolder&& other) noexcept = default;

OutputFolder::~OutputFolder() {
  if (parts_ == nullptr || parts_->committed) return;
  std::error_code ignored;
  fs::remove_all(parts_->partial, ignored);
}

const fs::path& OutputFolder::path() const {
  return parts_->partial;
}

OutputFile OutputFolder::file(const fs::path& name) const {
  const fs::path place = parts_->partial / name;
  std::error_code error;
  fs::create_directories(place.parent_path(), error);
  if (error) fail_errno(parts_->target / name, "cannot be made", error.value());
  return {place, parts_->target / name, false};
}

void OutputFolder::commit() {
  const fs::path& target = parts_->target;
  const fs::path& partial = parts_->partial;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(partial)) {
    if (entry.is_directory()) flush_folder(entry.path());
  }
  flush_folder(partial);
  const bool occupied = is_there(target) && !is_empty_folder(target);
  if (occupied && !parts_->replace) fail_exists(target);
  if (!occupied) {
    if (::rename(partial.c_str(), target.c_str()) != 0) fail_errno(target, "cannot be moved to its place", errno);
    parts_->committed = true;
  } else {
    const int error = move_by(MoveRule::exchange, partial, target);
    if (is_unsupported(error)) {
      exchange_by_hand(partial, target);
    } else if (error != 0) {
      fail_errno(target, "cannot be replaced", error);
    }
    // The destructor removes what stood there before: it has the partial name now.
  }
  flush_folder(folder_of(target));
}

void require_space(const fs::path& target, std::uint64_t bytes) {
  std::error_code error;
  fs::path place = fs::absolute(without_slash(target), error);
  while (!fs::exists(place, error) && place.has_parent_path() && place != place.parent_path()) {
    place = place.parent_path();
  }
  struct statvfs status{};
  if (::statvfs(place.c_str(), &status) != 0) return;  // the writing itself will tell
  const std::uint64_t free = static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
  if (free >= bytes) return;
  fail(target,
       fmt::format("needs {:.1f} MB, its disk has {:.1f} MB free", static_cast<double>(bytes) / 1e6,
                   static_cast<double>(free) / 1e6),
       "free some space, or write to another disk");
}

}  // namespace pastkv
