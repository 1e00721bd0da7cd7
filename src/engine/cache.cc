#include "engine/cache.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

#include "base/checked.h"
#include "base/error.h"
#include "graph/variant.h"

namespace pastkv::engine {
namespace {

constexpr std::uint64_t kStoreAlignment = 64;

// What the kernel reckons can be used without swapping; very large when it does not say.
std::uint64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string key; file >> key; file.ignore(std::numeric_limits<std::streamsize>::max(), '\n')) {
    std::uint64_t kilobytes = 0;
    if (key == "MemAvailable:" && file >> kilobytes) return kilobytes * 1024;
  }
  return std::numeric_limits<std::uint64_t>::max();
}

std::string megabytes(std::uint64_t bytes) {
  return std::to_string((bytes + 999'999) / 1'000'000) + " MB";
}

[[noreturn]] void does_not_fit(std::int64_t context, const std::string& bytes) {
  throw Error({.file = {},
               .place = {},
               .reason = "the states of a context of " + std::to_string(context) + " tokens take " + bytes + ", only " +
                         megabytes(available_memory()) + " are free",
               .remedy = "choose a smaller context or a smaller cache type"});
}

}  // namespace

Cache::Cache(std::span<const StateShape> shapes, tensor::DType type, std::int64_t context, std::int64_t chunk)
    : type_(type) {
  for (const StateShape& shape : shapes) {
    Store store{.heads = shape.heads, .window = shape.window};
    store.capacity = graph::held_positions(shape.window, context, chunk);
    const auto bytes = tensor::byte_size(type, static_cast<std::uint64_t>(shape.head_dim));
    if (!bytes) {
      throw Error({.file = {},
                   .place = "cache type " + std::string(tensor::name(type)),
                   .reason = "a head of " + std::to_string(shape.head_dim) + " numbers is no whole number of blocks",
                   .remedy = "choose f16"});
    }
    store.position_bytes = static_cast<std::int64_t>(*bytes);
    store.offset = bytes_;
    auto size = checked_multiply(*bytes, static_cast<std::uint64_t>(store.capacity));
    if (size) size = checked_multiply(*size, static_cast<std::uint64_t>(store.heads));
    if (size) size = checked_add(*size, kStoreAlignment - 1);
    if (size) *size &= ~(kStoreAlignment - 1);
    if (size) size = checked_add(bytes_, *size);
    if (!size) does_not_fit(context, "more than 2^64 bytes");
    bytes_ = *size;
    stores_.push_back(store);
  }
  if (bytes_ > available_memory()) does_not_fit(context, megabytes(bytes_));
  if (bytes_ == 0) return;
  void* memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) does_not_fit(context, megabytes(bytes_));
  memory_ = static_cast<std::byte*>(memory);
}

Cache::~Cache() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
}

std::byte* Cache::at(int state, std::int64_t head, std::int64_t position) const {
  const Store& s = store(state);
  return memory_ + s.offset + (head * s.capacity + position - s.first) * s.position_bytes;
}

void Cache::make_room(std::int64_t count) {
  for (std::size_t index = 0; index < stores_.size(); ++index) {
    Store& s = stores_[index];
    if (length_ + count - s.first <= s.capacity) continue;
    const std::int64_t first = std::max<std::int64_t>(s.first, length_ - (s.window - 1));
    const auto bytes = static_cast<std::size_t>((length_ - first) * s.position_bytes);
    for (std::int64_t head = 0; head < s.heads; ++head) {
      const std::byte* from = at(static_cast<int>(index), head, first);
      std::memmove(memory_ + s.offset + head * s.capacity * s.position_bytes, from, bytes);
    }
    s.first = first;
  }
}

std::int64_t Cache::truncate(std::int64_t length) {
  length = std::min(length, length_);
  for (const Store& s : stores_) {
    // A token at `length` sees the positions above length - window.
    if (s.window > 0 && s.first > std::max<std::int64_t>(0, length - s.window + 1)) length = 0;
  }
  if (length == 0) {
    for (Store& s : stores_) s.first = 0;
  }
  length_ = length;
  return length;
}

}  // namespace pastkv::engine
