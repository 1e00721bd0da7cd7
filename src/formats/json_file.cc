#include "formats/json_file.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/mapped_file.h"
#include "formats/names.h"

namespace pastkv::formats {

using nlohmann::json;

std::string json_fault(const json::exception& fault) {
  // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while ..."
  const std::string_view whole = fault.what();
  const std::size_t column = whole.find("column ");
  const std::size_t start = column == std::string_view::npos ? std::string_view::npos : whole.find(": ", column);
  return shown(start == std::string_view::npos ? whole : whole.substr(start + 2));
}

json read_json_object(const std::filesystem::path& file) {
  constexpr std::size_t kLargest = 64ULL << 20;
  constexpr int kDeepest = 256;
  const auto fail = [&](std::string place, std::string reason, std::string remedy = {}) {
    throw Error(
        {.file = file.string(), .place = std::move(place), .reason = std::move(reason), .remedy = std::move(remedy)});
  };
  const auto mapped = MappedFile::open(file);
  const auto bytes = mapped->bytes();
  if (bytes.empty()) fail({}, "is empty (0 bytes)", "download it again");
  if (bytes.size() > kLargest) {
    fail({}, fmt::format("is {} bytes of JSON, more than the {} allowed", bytes.size(), kLargest));
  }
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  json document;
  try {
    document = json::parse(text, text + bytes.size(), [&](int depth, json::parse_event_t, json&) {
      if (depth > kDeepest) fail({}, fmt::format("is nested more than {} levels deep", kDeepest));
      return true;
    });
  } catch (const json::parse_error& fault) {
    fail(fmt::format("byte {}", fault.byte), "is not valid JSON: " + json_fault(fault),
         "correct it or download it again");
  } catch (const json::exception& fault) {
    fail({}, "is not valid JSON: " + json_fault(fault), "correct it or download it again");
  }
  if (!document.is_object()) fail({}, fmt::format("holds a JSON {}, not an object", document.type_name()));
  return document;
}

}  // namespace pastkv::formats
