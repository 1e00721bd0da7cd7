#include "formats/gguf_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>
#include <unordered_set>
#include <utility>

#include "base/byte_reader.h"
#include "base/checked.h"
#include "base/error.h"
#include "formats/gguf_types.h"
#include "formats/names.h"

namespace pastkv::formats {
namespace {

enum class ValueType : std::uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64,
};

constexpr std::uint32_t kMostDimensions = 4;
constexpr std::uint64_t kLongestName = 65535;  // the format's own limit on keys
// What all values together may take in memory: over ten times what any vocabulary does. A file can be sparse, so its
// size alone bounds nothing.
constexpr std::uint64_t kMostValueBytes = 256ULL << 20;
constexpr const char* kDownloadAgain = "the download is incomplete or the file is damaged: download it again";
constexpr const char* kAnotherCopy = "the file was written wrongly: get another copy";

template <typename Number>
using Widened = std::conditional_t<std::is_floating_point_v<Number>, double,
                                   std::conditional_t<std::is_signed_v<Number>, std::int64_t, std::uint64_t>>;

// As it stands in the file; `offset` counts from the start of the data.
struct TensorInfo {
  std::string name;
  tensor::DType dtype;
  std::vector<std::uint64_t> sizes;  // innermost first
  std::uint64_t offset;
  std::uint64_t bytes;
};

class PartReader {
 public:
  explicit PartReader(const std::filesystem::path& path)
      : file_(open_weights(path)), reader_(file_->bytes(), path.string()) {}

  GgufPart read() {
    check_magic_and_version();
    const auto tensor_count = reader_.number<std::uint64_t>("tensor count");
    const auto pair_count = reader_.number<std::uint64_t>("metadata count");
    check_count("tensor count", tensor_count);
    check_count("metadata count", pair_count);
    GgufPart part;
    for (std::uint64_t i = 0; i < pair_count; ++i) read_pair(i, part);
    std::vector<TensorInfo> infos;
    for (std::uint64_t i = 0; i < tensor_count; ++i) infos.push_back(read_tensor_info(i));
    check_names(infos);
    place_tensors(infos, alignment(part), part);
    part.file = file_;
    return part;
  }

 private:
  [[noreturn]] void fail(std::string place, std::string reason, std::string remedy = kAnotherCopy) const {
    throw Error(
        {.file = reader_.file(), .place = std::move(place), .reason = std::move(reason), .remedy = std::move(remedy)});
  }

  void check_magic_and_version() {
    const std::string_view magic = reader_.text(4, "magic");
    if (magic != "GGUF") {
      fail({}, fmt::format("is no GGUF file: it begins with \"{}\", not with \"GGUF\"", magic),
           "give the path of a GGUF file");
    }
    const auto version = reader_.number<std::uint32_t>("version");
    if (version == 2 || version == 3) return;
    if (version != 0 && (version & 0xFFFFU) == 0) {
      fail({}, "is a big-endian GGUF file; only little-endian files are read",
           "convert it with gguf-convert-endian of the Python package gguf");
    }
    fail({}, fmt::format("is GGUF version {}; versions 2 and 3 are read", version),
         version < 2 ? "get a newer conversion of the model" : "use a newer pastkv");
  }

  // Only absurd counts: nothing is allocated by them, and the entry that is missing makes a better message.
  void check_count(const char* field, std::uint64_t count) const {
    constexpr std::uint64_t kLengthOfName = 8;
    if (count > reader_.remaining() / kLengthOfName) {
      fail(field, fmt::format("{} entries do not fit in a file of {} bytes", count, reader_.size()), kDownloadAgain);
    }
  }

  std::string_view read_string(std::string_view field) {
    const auto length = reader_.number<std::uint64_t>(field);
    if (length > reader_.remaining()) {
      fail(std::string(field),
           fmt::format("a length of {} at byte {} reaches past the end of the file ({} bytes)", length,
                       reader_.position() - 8, reader_.size()),
           kDownloadAgain);
    }
    return reader_.text(length, field);
  }

  std::string copied_string(const std::string& field) {
    const std::string_view text = read_string(field);
    spend(text.size(), 1, field);
    return std::string(text);
  }

  std::string read_name(const std::string& field) {
    const std::string_view name = read_string(field);
    if (name.empty()) fail(field, "is empty");
    if (name.size() > kLongestName) {
      fail(field, fmt::format("has {} bytes, more than the {} allowed", name.size(), kLongestName));
    }
    return std::string(name);
  }

  void read_pair(std::uint64_t number, GgufPart& part) {
    std::string key = read_name(fmt::format("name of metadata entry {}", number));
    const std::string field = "metadata key " + shown(key);
    const std::uint64_t begin = reader_.position();
    const auto type = reader_.number<std::uint32_t>(field);
    GgufValue value = read_value(type, field);
    part.pairs.push_back({key, file_->bytes().subspan(begin, reader_.position() - begin)});
    if (!part.metadata.emplace(std::move(key), std::move(value)).second) fail(field, "duplicate key");
  }

  GgufValue read_value(std::uint32_t type, const std::string& field) {
    switch (static_cast<ValueType>(type)) {
      case ValueType::u8:
        return widened<std::uint8_t>(field);
      case ValueType::i8:
        return widened<std::int8_t>(field);
      case ValueType::u16:
        return widened<std::uint16_t>(field);
      case ValueType::i16:
        return widened<std::int16_t>(field);
      case ValueType::u32:
        return widened<std::uint32_t>(field);
      case ValueType::i32:
        return widened<std::int32_t>(field);
      case ValueType::u64:
        return widened<std::uint64_t>(field);
      case ValueType::i64:
        return widened<std::int64_t>(field);
      case ValueType::f32:
        return widened<float>(field);
      case ValueType::f64:
        return widened<double>(field);
      case ValueType::boolean:
        return reader_.number<std::uint8_t>(field) != 0;
      case ValueType::string:
        return copied_string(field);
      case ValueType::array:
        return read_array(field);
    }
    fail(field, fmt::format("type {} of the value is not known; 0 to 12 are", type));
  }

  GgufValue read_array(const std::string& field) {
    const auto type = reader_.number<std::uint32_t>(field);
    const auto count = reader_.number<std::uint64_t>(field);
    switch (static_cast<ValueType>(type)) {
      case ValueType::u8:
        return widened_array<std::uint8_t>(count, field);
      case ValueType::i8:
        return widened_array<std::int8_t>(count, field);
      case ValueType::u16:
        return widened_array<std::uint16_t>(count, field);
      case ValueType::i16:
        return widened_array<std::int16_t>(count, field);
      case ValueType::u32:
        return widened_array<std::uint32_t>(count, field);
      case ValueType::i32:
        return widened_array<std::int32_t>(count, field);
      case ValueType::u64:
        return widened_array<std::uint64_t>(count, field);
      case ValueType::i64:
        return widened_array<std::int64_t>(count, field);
      case ValueType::f32:
        return widened_array<float>(count, field);
      case ValueType::f64:
        return widened_array<double>(count, field);
      case ValueType::boolean:
        return bool_array(count, field);
      case ValueType::string:
        return string_array(count, field);
      case ValueType::array:
        fail(field, "element type 9 makes it an array of arrays, which is not read");
    }
    fail(field, fmt::format("element type {} of the array is not known; 0 to 8 and 10 to 12 are", type));
  }

  template <typename Number>
  Widened<Number> widened(const std::string& field) {
    return static_cast<Widened<Number>>(reader_.number<Number>(field));
  }

  template <typename Number>
  std::vector<Widened<Number>> widened_array(std::uint64_t count, const std::string& field) {
    ByteReader elements = array_bytes(count, sizeof(Number), field);
    std::vector<Widened<Number>> values(count);
    for (auto& value : values) value = static_cast<Widened<Number>>(elements.number<Number>(field));
    return values;
  }

  std::vector<bool> bool_array(std::uint64_t count, const std::string& field) {
    ByteReader elements = array_bytes(count, 1, field);
    std::vector<bool> values(count);
    for (std::uint64_t i = 0; i < count; ++i) values[i] = elements.number<std::uint8_t>(field) != 0;
    return values;
  }

  std::vector<std::string_view> string_array(std::uint64_t count, const std::string& field) {
    check_array(count, sizeof(std::uint64_t), sizeof(std::string_view), field);
    std::vector<std::string_view> values;
    values.reserve(std::min<std::uint64_t>(count, 1U << 16));
    for (std::uint64_t i = 0; i < count; ++i) values.push_back(read_string(field));
    return values;
  }

  // Steps over an array as a whole.
  ByteReader array_bytes(std::uint64_t count, std::uint64_t element_bytes, const std::string& field) {
    check_array(count, element_bytes, sizeof(std::uint64_t), field);
    const std::string_view text = reader_.text(count * element_bytes, field);
    return {std::as_bytes(std::span(text)), reader_.file()};
  }

  // Nothing is allocated for an array that the file does not hold.
  void check_array(std::uint64_t count, std::uint64_t bytes_in_file, std::uint64_t bytes_in_memory,
                   const std::string& field) {
    if (count > reader_.remaining() / bytes_in_file) {
      fail(field,
           fmt::format("an array of {} elements at byte {} reaches past the end of the file ({} bytes)", count,
                       reader_.position(), reader_.size()),
           kDownloadAgain);
    }
    spend(count, bytes_in_memory, field);
  }

  void spend(std::uint64_t count, std::uint64_t bytes, const std::string& field) {
    if (count > (kMostValueBytes - spent_) / bytes) {
      fail(field, fmt::format("{} elements bring the metadata over the {} bytes allowed", count, kMostValueBytes));
    }
    spent_ += count * bytes;
  }

  std::uint64_t alignment(const GgufPart& part) const {
    const auto found = part.metadata.find("general.alignment");
    if (found == part.metadata.end()) return 32;
    const auto* value = std::get_if<std::uint64_t>(&found->second);
    if (value == nullptr) fail("metadata key general.alignment", "is no unsigned integer");
    if (*value < 8 || *value > (1U << 30) || !std::has_single_bit(*value)) {
      fail("metadata key general.alignment", fmt::format("is {}; it must be a power of two, 8 or more", *value));
    }
    return *value;
  }

  TensorInfo read_tensor_info(std::uint64_t number) {
    TensorInfo info{};
    info.name = read_name(fmt::format("name of tensor {}", number));
    const std::string field = "tensor " + shown(info.name);
    const auto dimensions = reader_.number<std::uint32_t>(field);
    if (dimensions > kMostDimensions) {
      fail(field, fmt::format("has {} dimensions (byte {} of {}); at most {} are allowed", dimensions,
                              reader_.position() - 4, reader_.size(), kMostDimensions));
    }
    for (std::uint32_t i = 0; i < dimensions; ++i) info.sizes.push_back(reader_.number<std::uint64_t>(field));
    const auto type = reader_.number<std::uint32_t>(field);
    info.offset = reader_.number<std::uint64_t>(field);
    const auto dtype = gguf_tensor_type(type);
    if (!dtype) {
      fail(field,
           fmt::format("type {} is not supported; supported are {}", gguf_tensor_type_name(type),
                       gguf_supported_types()),
           "get the model in one of these types");
    }
    info.dtype = *dtype;
    info.bytes = tensor_bytes(info, field);
    return info;
  }

  std::uint64_t tensor_bytes(const TensorInfo& info, const std::string& field) const {
    std::optional<std::uint64_t> elements = 1;
    for (const std::uint64_t size : info.sizes) {
      if (size == 0) fail(field, fmt::format("dims {} hold a zero", shown_shape(info.sizes)));
      if (elements) elements = checked_multiply(*elements, size);
    }
    if (!elements || *elements > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
      fail(field, fmt::format("dims {} overflow", shown_shape(info.sizes)));
    }
    const auto block = static_cast<std::uint64_t>(tensor::traits(info.dtype).block_elements);
    const std::uint64_t row = info.sizes.empty() ? 1 : info.sizes[0];
    if (row % block != 0) {
      fail(field, fmt::format("rows of {} elements are no whole number of {} blocks of {}", row,
                              tensor::name(info.dtype), block));
    }
    const auto bytes = tensor::byte_size(info.dtype, *elements);
    if (!bytes) fail(field, fmt::format("dims {} overflow", shown_shape(info.sizes)));
    return *bytes;
  }

  // Before offsets: a tensor that stands twice in a file is out of place too, which says less.
  void check_names(const std::vector<TensorInfo>& infos) const {
    std::unordered_set<std::string_view> seen;
    for (const TensorInfo& info : infos) {
      if (!seen.insert(info.name).second) fail("tensor " + shown(info.name), "duplicate name: it stands twice");
    }
  }

  // Each tensor begins where the one before it, padded, ends.
  void place_tensors(std::vector<TensorInfo>& infos, std::uint64_t alignment, GgufPart& part) const {
    const auto padded = [&](std::uint64_t size) { return checked_add(size, alignment - 1); };
    const std::uint64_t mask = ~(alignment - 1);
    const std::uint64_t start = padded(reader_.position()).value_or(0) & mask;
    std::uint64_t expected = 0;
    std::uint64_t end = start;
    for (const TensorInfo& info : infos) {
      const std::string field = "tensor " + shown(info.name);
      if (info.offset != expected) {
        fail(field, fmt::format("has offset {}, where the tensors before it put {} (alignment {})", info.offset,
                                expected, alignment));
      }
      const auto own_end = checked_add(info.offset, info.bytes);
      const auto file_end = own_end ? checked_add(start, *own_end) : std::nullopt;
      const auto next = own_end ? padded(*own_end) : std::nullopt;
      if (!file_end || !next) fail(field, fmt::format("{} bytes at offset {} overflow", info.bytes, info.offset));
      end = *file_end;
      expected = *next & mask;
    }
    if (!infos.empty() && end > reader_.size()) {
      fail({}, fmt::format("has {} bytes, its tensors need {}", reader_.size(), end),
           "the download is incomplete: download it again");
    }
    for (TensorInfo& info : infos) {
      part.tensors.push_back({std::move(info.name),
                              info.dtype,
                              {info.sizes.rbegin(), info.sizes.rend()},
                              file_->bytes().subspan(start + info.offset, info.bytes),
                              file_});
    }
  }

  std::shared_ptr<const MappedFile> file_;
  ByteReader reader_;
  std::uint64_t spent_ = 0;  // bytes of memory for values; at most kMostValueBytes
};

}  // namespace

GgufPart read_gguf_part(const std::filesystem::path& path) {
  return PartReader(path).read();
}

}  // namespace pastkv::formats
