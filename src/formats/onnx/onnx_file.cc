#include "formats/onnx/onnx_file.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "formats/names.h"
#include "formats/onnx/onnx.pb.h"
#include "tensor/codec.h"

namespace pastkv::formats {

namespace fs = std::filesystem;
using onnx::TensorProto;

namespace {

constexpr std::size_t kMostAxes = 32;

[[noreturn]] void refuse(const fs::path& file, std::string place, std::string reason, std::string remedy = "") {
  throw Error(
      {.file = file.string(), .place = std::move(place), .reason = std::move(reason), .remedy = std::move(remedy)});
}

std::vector<fs::path> onnx_files(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
    if (entry.path().extension() == ".onnx") found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

fs::path find_model(const fs::path& path) {
  if (!fs::is_directory(path)) return path;
  for (const fs::path& folder : {path / "onnx", path}) {
    const std::vector<fs::path> found = onnx_files(folder);
    if (std::ranges::find(found, folder / "model.onnx") != found.end()) return folder / "model.onnx";
    if (found.size() == 1) return found.front();
    if (found.size() > 1) {
      refuse(folder, "", fmt::format("holds {} .onnx files and none is model.onnx", found.size()), "name the file");
    }
  }
  refuse(path, "", "holds no .onnx file, and its folder onnx/ neither");
}

template <typename From>
std::vector<std::byte> narrowed(const google::protobuf::RepeatedField<From>& numbers, std::size_t bytes_each) {
  std::vector<std::byte> out(static_cast<std::size_t>(numbers.size()) * bytes_each);
  for (int i = 0; i < numbers.size(); ++i) {  // little endian: the low bytes come first
    const From number = numbers[i];
    std::memcpy(&out[static_cast<std::size_t>(i) * bytes_each], &number, bytes_each);
  }
  return out;
}

// Numbers that stand in a field of their own type instead of raw_data.
std::optional<std::vector<std::byte>> typed_data(const TensorProto& tensor) {
  const int bits = onnx_bits(tensor.data_type());
  const auto bytes = static_cast<std::size_t>(bits / 8);
  if (tensor.float_data_size() > 0 && tensor.data_type() == TensorProto::FLOAT) return narrowed(tensor.float_data(), 4);
  if (tensor.double_data_size() > 0 && tensor.data_type() == TensorProto::DOUBLE) {
    return narrowed(tensor.double_data(), 8);
  }
  if (tensor.int64_data_size() > 0 && tensor.data_type() == TensorProto::INT64) return narrowed(tensor.int64_data(), 8);
  const bool wide = tensor.data_type() == TensorProto::UINT32 || tensor.data_type() == TensorProto::UINT64;
  if (tensor.uint64_data_size() > 0 && wide) return narrowed(tensor.uint64_data(), bytes);
  if (tensor.int32_data_size() > 0 && bits <= 32 && tensor.data_type() != TensorProto::FLOAT) {
    return narrowed(tensor.int32_data(), std::max<std::size_t>(bytes, 1));
  }
  return std::nullopt;
}

std::uint64_t wanted_bytes(const TensorProto& tensor, const fs::path& file, const std::string& place) {
  const int bits = onnx_bits(tensor.data_type());
  if (bits == 0) refuse(file, place, fmt::format("element type {} holds no numbers", tensor.data_type()));
  if (std::cmp_greater(tensor.dims_size(), kMostAxes)) refuse(file, place, fmt::format("{} axes", tensor.dims_size()));
  std::optional<std::uint64_t> total = 1;
  for (const std::int64_t dim : tensor.dims()) {
    if (dim < 0)
      refuse(file, place,
             fmt::format("shape {} has a negative size",
                         shown_shape(std::vector(tensor.dims().begin(), tensor.dims().end()))));
    if (total) total = checked_multiply(*total, static_cast<std::uint64_t>(dim));
  }
  if (total) total = checked_multiply(*total, static_cast<std::uint64_t>(bits));
  if (!total) refuse(file, place, "its size leaves 64 bits");
  return *total / 8 + (*total % 8 != 0 ? 1 : 0);
}

std::uint64_t parsed_number(const std::string& text, const fs::path& file, const std::string& place, const char* what) {
  std::uint64_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc() || end != text.data() + text.size() || text.empty()) {
    refuse(file, place, fmt::format("external data {} '{}' is no number of bytes", what, shown(text)));
  }
  return number;
}

template <typename Number>
Number loaded(std::span<const std::byte> bytes, std::int64_t index) {
  Number number{};
  std::memcpy(&number, &bytes[static_cast<std::size_t>(index) * sizeof(Number)], sizeof(Number));
  return number;
}

double number_at(const OnnxTensor& tensor, std::int64_t i) {
  const std::span<const std::byte> bytes = tensor.bytes;
  switch (tensor.type) {
    case TensorProto::FLOAT:
      return static_cast<double>(loaded<float>(bytes, i));
    case TensorProto::DOUBLE:
      return loaded<double>(bytes, i);
    case TensorProto::FLOAT16:
      return static_cast<double>(tensor::f16_to_f32(loaded<std::uint16_t>(bytes, i)));
    case TensorProto::BFLOAT16:
      return static_cast<double>(tensor::bf16_to_f32(loaded<std::uint16_t>(bytes, i)));
    case TensorProto::INT64:
      return static_cast<double>(loaded<std::int64_t>(bytes, i));
    case TensorProto::UINT64:
      return static_cast<double>(loaded<std::uint64_t>(bytes, i));
    case TensorProto::INT32:
      return loaded<std::int32_t>(bytes, i);
    case TensorProto::UINT32:
      return loaded<std::uint32_t>(bytes, i);
    case TensorProto::INT16:
      return loaded<std::int16_t>(bytes, i);
    case TensorProto::UINT16:
      return loaded<std::uint16_t>(bytes, i);
    case TensorProto::INT8:
      return loaded<std::int8_t>(bytes, i);
    case TensorProto::UINT8:
      return loaded<std::uint8_t>(bytes, i);
    case TensorProto::BOOL:
      return loaded<std::uint8_t>(bytes, i) != 0 ? 1.0 : 0.0;
    case TensorProto::INT4:
    case TensorProto::UINT4: {
      const int half = (loaded<std::uint8_t>(bytes, i / 2) >> (i % 2 * 4)) & 15;
      return tensor.type == TensorProto::INT4 && half > 7 ? half - 16 : half;
    }
    default:
      throw Error({.place = tensor.name, .reason = fmt::format("element type {} holds no numbers", tensor.type)});
  }
}

}  // namespace

std::int64_t OnnxTensor::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

int onnx_bits(std::int32_t type) {
  switch (type) {
    case TensorProto::INT4:
    case TensorProto::UINT4:
      return 4;
    case TensorProto::UINT8:
    case TensorProto::INT8:
    case TensorProto::BOOL:
      return 8;
    case TensorProto::UINT16:
    case TensorProto::INT16:
    case TensorProto::FLOAT16:
    case TensorProto::BFLOAT16:
      return 16;
    case TensorProto::FLOAT:
    case TensorProto::INT32:
    case TensorProto::UINT32:
      return 32;
    case TensorProto::INT64:
    case TensorProto::UINT64:
    case TensorProto::DOUBLE:
      return 64;
    default:
      return 0;
  }
}

std::string onnx_type_name(std::int32_t type) {
  if (!onnx::TensorProto_DataType_IsValid(type)) return fmt::format("type {}", type);
  std::string name = onnx::TensorProto_DataType_Name(static_cast<onnx::TensorProto_DataType>(type));
  for (char& letter : name) letter = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter;
  return name;
}

std::vector<double> onnx_numbers(const OnnxTensor& tensor, std::int64_t first, std::int64_t count) {
  std::vector<double> numbers(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) numbers[static_cast<std::size_t>(i)] = number_at(tensor, first + i);
  return numbers;
}

OnnxFile OnnxFile::open(const fs::path& path) {
  const fs::path file = find_model(path);
  const auto mapped = MappedFile::open(file);
  return parse(mapped->bytes(), file, file.has_parent_path() ? file.parent_path() : fs::path("."));
}

OnnxFile OnnxFile::parse(std::span<const std::byte> message, const fs::path& name, const fs::path& folder) {
  if (message.size() > kOnnxMessageLimit) {
    refuse(name, "", fmt::format("{} bytes, and a message ends at {}", message.size(), kOnnxMessageLimit),
           "keep the weights in external data");
  }
  OnnxFile file;
  file.path_ = name;
  file.folder_ = folder;
  file.file_bytes_ = message.size();
  auto model = std::make_shared<onnx::ModelProto>();
  google::protobuf::io::ArrayInputStream stream(message.data(), static_cast<int>(message.size()));
  google::protobuf::io::CodedInputStream coded(&stream);
  coded.SetTotalBytesLimit(static_cast<int>(kOnnxMessageLimit));
  if (!model->ParseFromCodedStream(&coded) || !coded.ConsumedEntireMessage() || !model->has_graph() ||
      !model->has_ir_version()) {
    refuse(name, fmt::format("byte {}", coded.CurrentPosition()), "is no ONNX model, or damaged");
  }
  for (const onnx::OperatorSetIdProto& set : model->opset_import()) {
    if (set.domain().empty() || set.domain() == "ai.onnx") file.opset_ = std::max(file.opset_, set.version());
  }
  if (file.opset_ < 1) refuse(name, "opset_import", "names no version of the standard's operations");
  file.model_ = std::move(model);
  return file;
}

OnnxTensor OnnxFile::tensor(const TensorProto& tensor) const {
  const std::string place = "tensor " + shown(tensor.name());
  const std::uint64_t wanted = wanted_bytes(tensor, path_, place);
  OnnxTensor out{.name = tensor.name(),
                 .type = tensor.data_type(),
                 .shape = {tensor.dims().begin(), tensor.dims().end()},
                 .bytes = {},
                 .held = model_};
  if (tensor.data_location() == TensorProto::EXTERNAL) return external(tensor, std::move(out), wanted);
  if (auto typed = typed_data(tensor)) {
    auto kept = std::make_shared<const std::vector<std::byte>>(std::move(*typed));
    out.bytes = *kept;
    out.held = std::move(kept);
  } else {
    out.bytes = std::as_bytes(std::span(tensor.raw_data()));
  }
  if (out.bytes.size() != wanted) {
    refuse(path_, place,
           fmt::format("holds {} bytes, and {} {} wants {}", out.bytes.size(), onnx_type_name(out.type),
                       shown_shape(out.shape), wanted));
  }
  return out;
}

OnnxTensor OnnxFile::external(const TensorProto& tensor, OnnxTensor out, std::uint64_t wanted) const {
  const std::string place = "tensor " + shown(tensor.name());
  std::string location;
  std::uint64_t offset = 0;
  std::uint64_t length = wanted;
  for (const onnx::StringStringEntryProto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = parsed_number(entry.value(), path_, place, "offset");
    if (entry.key() == "length") length = parsed_number(entry.value(), path_, place, "length");
  }
  if (length != wanted) {
    refuse(path_, place,
           fmt::format("external data of {} bytes, and {} {} wants {}", length, onnx_type_name(out.type),
                       shown_shape(out.shape), wanted));
  }
  const auto file = data_file(location, place);
  const std::optional<std::uint64_t> end = checked_add(offset, length);
  if (!end || *end > file->bytes().size()) {
    refuse(path_, place,
           fmt::format("external data at byte {}, {} bytes long, in '{}' of {} bytes", offset, length, shown(location),
                       file->bytes().size()),
           "the data file is cut short, or belongs to another model");
  }
  out.bytes = file->bytes().subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(length));
  out.held = file;
  return out;
}

// Where links lead counts, not how a path is written.
std::shared_ptr<const MappedFile> OnnxFile::data_file(const std::string& location, const std::string& place) const {
  if (const auto known = data_files_.find(location); known != data_files_.end()) return known->second;
  const fs::path relative(location);
  const bool is_name = !location.empty() && location.find('\0') == std::string::npos && relative.is_relative();
  if (!is_name) refuse(path_, place, fmt::format("external data in '{}', which is no relative path", shown(location)));
  std::error_code failed;
  const fs::path folder = fs::weakly_canonical(folder_, failed);
  const fs::path target = failed ? fs::path() : fs::weakly_canonical(folder / relative, failed);
  const auto [inside, end] = std::mismatch(folder.begin(), folder.end(), target.begin(), target.end());
  if (failed || inside != folder.end()) {
    refuse(path_, place, fmt::format("external data in '{}', outside the model's folder", shown(location)),
           "put the data file beside the model");
  }
  if (!fs::exists(target, failed)) {
    refuse(path_, place, fmt::format("its external data file '{}' is missing", shown(location)),
           "copy it beside the model");
  }
  const auto file = MappedFile::open(target);
  file_bytes_ += file->bytes().size();
  data_files_.emplace(location, file);
  return file;
}

}  // namespace pastkv::formats
