// The weights of an ONNX model in one external file, laid out before a byte is written: each begins at a multiple of
// the alignment, so that a reader can map it.
#pragma once

#include <cstdint>
#include <string>

namespace pastkv::onnx {
class TensorProto;
}

namespace pastkv::formats {

class OnnxDataLayout {
 public:
  static constexpr std::uint64_t kAlignment = 4096;

  explicit OnnxDataLayout(std::string location) : location_(std::move(location)) {}

  // Gives `bytes` their place; returns the offset.
  std::uint64_t place(std::uint64_t bytes);
  // Says in `tensor` that its bytes lie at a place given before. Several tensors may share one.
  void refer(onnx::TensorProto& tensor, std::uint64_t offset, std::uint64_t bytes) const;
  std::uint64_t size() const { return size_; }

 private:
  std::string location_;  // file name, beside the model
  std::uint64_t size_ = 0;
};

}  // namespace pastkv::formats
