#include "formats/onnx/onnx_data.h"

#include <fmt/format.h>

#include "formats/onnx/onnx.pb.h"

namespace pastkv::formats {

std::uint64_t OnnxDataLayout::place(std::uint64_t bytes) {
  const std::uint64_t offset = (size_ + kAlignment - 1) / kAlignment * kAlignment;
  size_ = offset + bytes;
  return offset;
}

void OnnxDataLayout::refer(onnx::TensorProto& tensor, std::uint64_t offset, std::uint64_t bytes) const {
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  const auto entry = [&](const char* key, std::string value) {
    onnx::StringStringEntryProto& added = *tensor.add_external_data();
    added.set_key(key);
    added.set_value(std::move(value));
  };
  entry("location", location_);
  entry("offset", fmt::format("{}", offset));
  entry("length", fmt::format("{}", bytes));
}

}  // namespace pastkv::formats
