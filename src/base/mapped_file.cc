#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace pastkv {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& reason, const std::string& remedy = {}) {
  throw Error({.file = path.string(), .place = {}, .reason = reason, .remedy = remedy});
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // Without O_NONBLOCK a named pipe would hang here.
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) fail(path, std::string("cannot be opened: ") + std::strerror(errno), "check the path");
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) fail(path, std::string("cannot be examined: ") + std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail(path, "is not a regular file", "give the path of a file");
  const auto size = static_cast<std::size_t>(status.st_size);
  std::span<const std::byte> bytes;
  if (size > 0) {
    void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
    if (address == MAP_FAILED) fail(path, std::string("cannot be mapped: ") + std::strerror(errno));
    bytes = {static_cast<const std::byte*>(address), size};
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(path, bytes));
}

void MappedFile::drop(std::span<const std::byte> part) const {
  if (part.empty()) return;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto from = static_cast<std::size_t>(part.data() - bytes_.data()) / page * page;
  const std::size_t end = static_cast<std::size_t>(part.data() - bytes_.data()) + part.size();
  ::madvise(const_cast<std::byte*>(bytes_.data()) + from, end - from, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace pastkv
