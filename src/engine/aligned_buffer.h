// Memory for vectors: 64-byte aligned, not initialised, only ever growing.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace pastkv::engine {

class AlignedBuffer {
 public:
  // Contents are lost when it grows.
  void reserve(std::size_t bytes) {
    if (bytes <= bytes_) return;
    data_.reset(static_cast<std::byte*>(::operator new(bytes, kAlignment)));
    bytes_ = bytes;
  }
  std::byte* data() const { return data_.get(); }
  float* floats() const { return reinterpret_cast<float*>(data_.get()); }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Release {
    void operator()(std::byte* data) const { ::operator delete(data, kAlignment); }
  };
  std::unique_ptr<std::byte, Release> data_;
  std::size_t bytes_ = 0;
};

}  // namespace pastkv::engine
