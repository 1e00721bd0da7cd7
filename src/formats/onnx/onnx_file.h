// Reads an .onnx file and the files beside it that hold its weights. What a hostile file can do ends here: external
// data stays inside the model's folder and inside its file, sizes are checked before they are believed.
// Source of the format: onnx.proto and ExternalData.md of github.com/onnx/onnx.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"

namespace pastkv::onnx {  // onnx.proto
class ModelProto;
class TensorProto;
}  // namespace pastkv::onnx

namespace pastkv::formats {

// Protobuf cannot read a message of more bytes.
inline constexpr std::uint64_t kOnnxMessageLimit = (std::uint64_t{1} << 31) - 1;

// A tensor with its bytes, little endian, row-major; two numbers of 4 bits to a byte, the low half first.
struct OnnxTensor {
  std::string name;
  std::int32_t type = 0;  // onnx::TensorProto_DataType
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> held;  // keeps `bytes` alive

  std::int64_t elements() const;
};

// Bits of one element of an onnx::TensorProto_DataType; 0 for types that hold no numbers, or are not known.
int onnx_bits(std::int32_t type);
std::string onnx_type_name(std::int32_t type);  // "float16"

// `count` numbers from the element `first` on. Throws Error for types that hold no numbers.
std::vector<double> onnx_numbers(const OnnxTensor& tensor, std::int64_t first, std::int64_t count);

class OnnxFile {
 public:
  // `path`: a file, or a folder with model.onnx, or with one .onnx file, at its top or in `onnx/`. Throws Error when
  // there is none, when it is no ONNX model, or imports no operations of the standard.
  static OnnxFile open(const std::filesystem::path& path);
  // A message that lies in memory; external data is looked for in `folder`.
  static OnnxFile parse(std::span<const std::byte> message, const std::filesystem::path& name,
                        const std::filesystem::path& folder);

  const onnx::ModelProto& model() const { return *model_; }
  const std::filesystem::path& path() const { return path_; }
  std::int64_t opset() const { return opset_; }             // of the standard's domain, whatever stands first
  std::uint64_t file_bytes() const { return file_bytes_; }  // of the message and of all external files opened so far

  // The bytes of an initializer or of a constant, wherever they lie. Throws Error naming the tensor.
  OnnxTensor tensor(const onnx::TensorProto& tensor) const;

 private:
  OnnxTensor external(const onnx::TensorProto& tensor, OnnxTensor out, std::uint64_t wanted) const;
  std::shared_ptr<const MappedFile> data_file(const std::string& location, const std::string& place) const;

  std::filesystem::path path_;
  std::filesystem::path folder_;
  std::shared_ptr<const onnx::ModelProto> model_;
  std::int64_t opset_ = 0;
  mutable std::uint64_t file_bytes_ = 0;
  mutable std::map<std::string, std::shared_ptr<const MappedFile>> data_files_;  // by location
};

}  // namespace pastkv::formats
