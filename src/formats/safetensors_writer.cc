#include "formats/safetensors_writer.h"

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "base/error.h"

namespace pastkv::formats {
namespace {

using Json = nlohmann::ordered_json;
using tensor::DType;

const char* safetensors_name(DType type) {
  switch (type) {
    case DType::f32:
      return "F32";
    case DType::f16:
      return "F16";
    case DType::bf16:
      return "BF16";
    case DType::f64:
      return "F64";
    case DType::f8_e4m3:
      return "F8_E4M3";
    case DType::f8_e5m2:
      return "F8_E5M2";
    default:
      throw std::logic_error("safetensors is not written with elements of type " + std::string(tensor::name(type)));
  }
}

// Length and text of a header, padded so that the data begins at a multiple of 8.
std::string header_of(std::span<const TensorSpec> tensors, const std::string& file) {
  Json header = {{"__metadata__", {{"format", "pt"}}}};
  std::uint64_t offset = 0;
  for (const TensorSpec& tensor : tensors) {
    const std::uint64_t end = offset + tensor.bytes();
    header[tensor.name] = {
        {"dtype", safetensors_name(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > kLongestSafetensorsHeader) {
    throw Error({.file = file,
                 .place = "header",
                 .reason = fmt::format("would have {} bytes, readers take {}", text.size(), kLongestSafetensorsHeader),
                 .remedy = "write smaller shards"});
  }
  const std::uint64_t length = text.size();
  std::string whole(sizeof length, '\0');
  std::memcpy(whole.data(), &length, sizeof length);
  return whole + text;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const OutputFolder& folder, std::vector<TensorSpec> tensors,
                                     std::uint64_t shard_size)
    : folder_(&folder), tensors_(std::move(tensors)), counts_(split_into_files(tensors_, shard_size)) {
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    names_.push_back(fmt::format("model{}.safetensors", counts_.size() == 1 ? "" : part_suffix(i, counts_.size())));
  }
  open_next();
}

void SafetensorsWriter::open_next() {
  const std::span<const TensorSpec> inside = std::span(tensors_).subspan(next_tensor_, counts_[next_file_]);
  const std::string& name = names_[next_file_];
  file_.push_back(folder_->file(name));
  file_.back().write(header_of(inside, name));
  missing_ = 0;
  for (const TensorSpec& tensor : inside) missing_ += tensor.bytes();
  next_tensor_ += inside.size();
  ++next_file_;
}

void SafetensorsWriter::close_file() {
  file_.back().commit();
  file_.clear();
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  if (missing_ == 0 && !bytes.empty() && next_file_ < counts_.size()) {
    close_file();
    open_next();
  }
  if (bytes.size() > missing_) throw std::logic_error("more bytes than the tensors have");
  file_.back().write(bytes);
  missing_ -= bytes.size();
}

std::vector<std::string> SafetensorsWriter::finish() {
  if (missing_ != 0 || next_file_ != counts_.size()) throw std::logic_error("fewer bytes than the tensors have");
  close_file();
  std::vector<std::string> files = names_;
  if (names_.size() == 1) return files;
  Json map = Json::object();
  std::uint64_t total = 0;
  std::size_t tensor = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    for (std::size_t n = 0; n < counts_[i]; ++n, ++tensor) {
      map[tensors_[tensor].name] = names_[i];
      total += tensors_[tensor].bytes();
    }
  }
  files.emplace_back("model.safetensors.index.json");
  OutputFile index = folder_->file(files.back());
  index.write(Json{{"metadata", {{"total_size", total}}}, {"weight_map", map}}.dump(2) + "\n");
  index.commit();
  return files;
}

}  // namespace pastkv::formats
