// The engine's spelling of a state: per head a run of positions in the cache's element type. A window layer holds its
// window and room for a chunk; when that is full the window moves to the front.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/plan.h"
#include "tensor/dtype.h"

namespace pastkv::engine {

class Cache {
 public:
  // Reserves address space for every state; memory is used as positions are written. Throws Error when the whole would
  // not fit the memory that is free, or a head is no whole number of blocks of `type`.
  Cache(std::span<const StateShape> shapes, tensor::DType type, std::int64_t context, std::int64_t chunk);
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  tensor::DType type() const { return type_; }
  std::int64_t position_bytes(int state) const { return store(state).position_bytes; }
  std::int64_t length() const { return length_; }
  std::uint64_t bytes() const { return bytes_; }

  // Makes room in every state for `count` positions after length(); count is at most the chunk.
  void make_room(std::int64_t count);
  void advance(std::int64_t count) { length_ += count; }

  // First position that the state still holds.
  std::int64_t first_position(int state) const { return store(state).first; }
  std::byte* at(int state, std::int64_t head, std::int64_t position) const;

  // See Session::truncate.
  std::int64_t truncate(std::int64_t length);

 private:
  struct Store {
    std::int64_t heads = 0;
    std::int64_t window = 0;
    std::int64_t capacity = 0;  // positions
    std::int64_t position_bytes = 0;
    std::int64_t first = 0;    // position at the front
    std::uint64_t offset = 0;  // in memory_
  };
  const Store& store(int state) const { return stores_[static_cast<std::size_t>(state)]; }

  tensor::DType type_;
  std::vector<Store> stores_;
  std::byte* memory_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::int64_t length_ = 0;
};

}  // namespace pastkv::engine
