#include "formats/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/byte_reader.h"
#include "base/checked.h"
#include "base/error.h"
#include "formats/json_file.h"
#include "formats/names.h"

namespace pastkv::formats {
namespace {

using nlohmann::json;
using tensor::DType;

constexpr std::pair<std::string_view, DType> kTypes[] = {
    {"F64", DType::f64},      {"F32", DType::f32},         {"F16", DType::f16},         {"BF16", DType::bf16},
    {"I64", DType::i64},      {"I32", DType::i32},         {"I16", DType::i16},         {"I8", DType::i8},
    {"U64", DType::u64},      {"U32", DType::u32},         {"U16", DType::u16},         {"U8", DType::u8},
    {"BOOL", DType::boolean}, {"F8_E4M3", DType::f8_e4m3}, {"F8_E5M2", DType::f8_e5m2},
};
constexpr std::size_t kMostDimensions = 16;
constexpr std::uint64_t kLargestSize = std::numeric_limits<std::int64_t>::max();
constexpr const char* kDownloadAgain = "the download is incomplete or the file is damaged: download it again";
constexpr const char* kAnotherCopy = "the file was written wrongly: get another copy";

std::optional<DType> type_of(std::string_view spelling) {
  for (const auto& [known, type] : kTypes) {
    if (known == spelling) return type;
  }
  return std::nullopt;
}

std::string known_types() {
  std::string list;
  for (const auto& [known, type] : kTypes) {
    if (!list.empty()) list += ' ';
    list += known;
  }
  return list;
}

// One entry of the header. Offsets count from the end of the header.
struct Described {
  std::string name;
  DType dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin;
  std::uint64_t end;
};

// Takes the header event by event: a document tree would cost many times the header, and would hide a name given twice.
class HeaderReader final : public nlohmann::json_sax<json> {
 public:
  explicit HeaderReader(std::string file) : file_(std::move(file)) {}

  std::vector<Described> take() { return std::move(described_); }

  bool null() override { return unexpected("null"); }
  bool boolean(bool /*value*/) override { return unexpected("a truth value"); }
  bool number_float(double /*value*/, const std::string& text) override { return unexpected("number " + shown(text)); }
  bool number_integer(std::int64_t value) override { return unexpected("number " + std::to_string(value)); }
  bool binary(json::binary_t& /*value*/) override { return unexpected("binary data"); }

  bool number_unsigned(std::uint64_t value) override {
    if (level_ != Level::list) return unexpected("number " + std::to_string(value));
    if (key_ == "shape") {
      if (value > kLargestSize) fail(fmt::format("dimension {} is too large", value));
      if (current().shape.size() == kMostDimensions) fail(fmt::format("has more than {} dimensions", kMostDimensions));
      current().shape.push_back(static_cast<std::int64_t>(value));
    } else {
      if (offsets_ == 2) fail("data_offsets holds more than two numbers");
      (offsets_ == 0 ? current().begin : current().end) = value;
      ++offsets_;
    }
    return true;
  }

  bool string(std::string& value) override {
    if (level_ == Level::metadata) return true;
    if (level_ != Level::tensor || key_ != "dtype") return unexpected("text \"" + shown(value) + "\"");
    const auto type = type_of(value);
    if (!type) fail(fmt::format("dtype {} is not known; known are {}", shown(value), known_types()));
    current().dtype = *type;
    return true;
  }

  bool start_object(std::size_t /*elements*/) override {
    switch (level_) {
      case Level::outside:
        level_ = Level::top;
        return true;
      case Level::top:
        level_ = in_metadata_ ? Level::metadata : Level::tensor;
        key_.clear();
        seen_ = {};
        offsets_ = 0;
        return true;
      default:
        return unexpected("an object");
    }
  }

  bool key(std::string& name) override {
    if (level_ == Level::top) {
      in_metadata_ = name == "__metadata__";
      if (in_metadata_ && std::exchange(metadata_seen_, true)) fail("duplicate key __metadata__");
      if (!in_metadata_) described_.push_back({std::move(name), DType::f32, {}, 0, 0});
    } else if (level_ == Level::tensor) {
      bool* seen = name == "dtype" ? &seen_.dtype : name == "shape" ? &seen_.shape : nullptr;
      if (name == "data_offsets") seen = &seen_.offsets;
      if (seen == nullptr) fail("key " + shown(name) + " is not known");
      if (std::exchange(*seen, true)) fail("duplicate key " + name);
      key_ = std::move(name);
    }
    return true;
  }

  bool end_object() override {
    if (level_ == Level::tensor) check_complete();
    in_metadata_ = false;
    level_ = level_ == Level::top ? Level::outside : Level::top;
    return true;
  }

  bool start_array(std::size_t /*elements*/) override {
    if (level_ != Level::tensor || (key_ != "shape" && key_ != "data_offsets")) return unexpected("a list");
    level_ = Level::list;
    return true;
  }

  bool end_array() override {
    level_ = Level::tensor;
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/, const json::exception& fault) override {
    throw Error({.file = file_,
                 .place = fmt::format("byte {}", position + 8),
                 .reason = "the header is not valid JSON: " + json_fault(fault),
                 .remedy = kDownloadAgain});
  }

 private:
  enum class Level { outside, top, metadata, tensor, list };

  Described& current() { return described_.back(); }

  std::string place() const {
    if (in_metadata_) return "__metadata__";
    return described_.empty() ? "header" : "tensor " + shown(described_.back().name);
  }

  [[noreturn]] void fail(std::string reason) const {
    throw Error({.file = file_, .place = place(), .reason = std::move(reason), .remedy = kAnotherCopy});
  }

  bool unexpected(const std::string& what) const {
    if (level_ == Level::outside) fail("the header is " + what + ", not an object");
    if (level_ == Level::metadata) fail("holds " + what + " where only text is allowed");
    if (level_ == Level::top) fail("is described by " + what + ", not by an object");
    fail(fmt::format("{} holds {}", key_, what));
  }

  void check_complete() {
    if (!seen_.dtype) fail("has no dtype");
    if (!seen_.shape) fail("has no shape");
    if (offsets_ != 2) fail("data_offsets does not hold two numbers");
  }

  std::string file_;
  std::vector<Described> described_;
  Level level_ = Level::outside;
  bool in_metadata_ = false;
  bool metadata_seen_ = false;
  // Of the tensor that is being read.
  struct Seen {
    bool dtype = false;
    bool shape = false;
    bool offsets = false;
  } seen_;
  std::string key_;
  int offsets_ = 0;  // numbers of data_offsets
};

class Reader {
 public:
  Reader(const std::filesystem::path& path, std::uint64_t header_limit)
      : file_(open_weights(path)), header_limit_(header_limit) {}

  void read(TensorSource& source) {
    const std::string_view header = find_header();
    HeaderReader reader(file_->path().string());
    json::sax_parse(header.begin(), header.end(), &reader);
    std::vector<Described> described = reader.take();
    check_names(described);
    for (const Described& one : described) check_size(one);
    check_layout(described);
    for (Described& one : described) {
      const auto bytes = data_.subspan(one.begin, one.end - one.begin);
      source.add({std::move(one.name), one.dtype, std::move(one.shape), bytes, file_});
    }
  }

 private:
  [[noreturn]] void fail(std::string place, std::string reason, std::string remedy) const {
    throw Error({.file = file_->path().string(),
                 .place = std::move(place),
                 .reason = std::move(reason),
                 .remedy = std::move(remedy)});
  }

  // The JSON text; sets data_ to what follows it.
  std::string_view find_header() {
    const auto bytes = file_->bytes();
    ByteReader reader(bytes, file_->path().string());
    const auto length = reader.number<std::uint64_t>("length of the header");
    if (reader.remaining() > 0 && static_cast<char>(bytes[8]) != '{') {
      fail("byte 8", "is no safetensors file: its header does not begin with {", "give the path of a safetensors file");
    }
    if (length > reader.remaining()) {
      fail("header",
           fmt::format("is {} bytes long and reaches past the end of the file ({} bytes)", length, bytes.size()),
           kDownloadAgain);
    }
    if (length > header_limit_) {
      fail("header", fmt::format("is {} bytes long, more than the limit of {}", length, header_limit_),
           "split the model into several files");
    }
    data_ = bytes.subspan(8 + length);
    return reader.text(length, "header");
  }

  void check_names(std::vector<Described>& described) const {
    std::sort(described.begin(), described.end(),
              [](const Described& a, const Described& b) { return a.name < b.name; });
    const auto twice = std::adjacent_find(described.begin(), described.end(),
                                          [](const Described& a, const Described& b) { return a.name == b.name; });
    if (twice != described.end()) {
      fail("tensor " + shown(twice->name), "duplicate name: the header describes it twice", kAnotherCopy);
    }
  }

  void check_size(const Described& one) const {
    const std::string place = "tensor " + shown(one.name);
    std::optional<std::uint64_t> elements = 1;
    for (const std::int64_t size : one.shape) {
      if (elements) elements = checked_multiply(*elements, static_cast<std::uint64_t>(size));
    }
    const auto bytes = elements ? tensor::byte_size(one.dtype, *elements) : std::nullopt;
    if (!bytes || *elements > kLargestSize) {
      fail(place, fmt::format("shape {} overflows", shown_shape(one.shape)), kAnotherCopy);
    }
    if (one.end < one.begin) {
      fail(place, fmt::format("data_offsets [{}, {}] run backwards", one.begin, one.end), kAnotherCopy);
    }
    if (one.end - one.begin != *bytes) {
      fail(place,
           fmt::format("shape {} of {} takes {} bytes, data_offsets [{}, {}] hold {}", shown_shape(one.shape),
                       tensor::name(one.dtype), *bytes, one.begin, one.end, one.end - one.begin),
           kAnotherCopy);
    }
  }

  // Tensors must cover the data, each byte once. Leaves them in the order in which they lie.
  void check_layout(std::vector<Described>& described) const {
    std::sort(described.begin(), described.end(), [](const Described& a, const Described& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    std::uint64_t covered = 0;
    for (const Described& one : described) {
      if (one.begin != covered) {
        fail("tensor " + shown(one.name),
             fmt::format("begins at byte {} of the data, where {} tensor ends at {}", one.begin,
                         one.begin < covered ? "an overlapping" : "a hole is left: the previous", covered),
             kAnotherCopy);
      }
      covered = one.end;
    }
    const std::uint64_t header_end = file_->bytes().size() - data_.size();
    if (covered > data_.size()) {
      fail({},
           fmt::format("has {} bytes, its header describes {}", file_->bytes().size(),
                       checked_add(header_end, covered).value_or(covered)),
           "the download is incomplete: download it again");
    }
    if (covered < data_.size()) {
      fail(fmt::format("byte {}", header_end + covered),
           fmt::format("{} bytes follow the last tensor: the file has {} bytes, its header describes {}",
                       data_.size() - covered, file_->bytes().size(), header_end + covered),
           kAnotherCopy);
    }
  }

  std::shared_ptr<const MappedFile> file_;
  std::uint64_t header_limit_;
  std::span<const std::byte> data_;
};

}  // namespace

void read_safetensors(const std::filesystem::path& file, TensorSource& source, std::uint64_t header_limit) {
  Reader(file, header_limit).read(source);
}

}  // namespace pastkv::formats
