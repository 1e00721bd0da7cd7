#include "bench/source_note.h"

#include <nlohmann/json.hpp>
#include <regex>
#include <vector>

#include "base/error.h"
#include "base/output.h"
#include "formats/json_file.h"

namespace pastkv::bench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kInFolder = "pastkv.json";
constexpr const char* kBeside = ".pastkv.json";

fs::path plain(const fs::path& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

fs::path beside(const fs::path& path) {
  return path.parent_path() / (path.filename().string() + kBeside);
}

// "model-00002-of-00003.gguf" -> "model.gguf"
fs::path without_part(const fs::path& path) {
  static const std::regex kPart("-[0-9]{5}-of-[0-9]{5}(\\.gguf)$");
  return path.parent_path() / std::regex_replace(path.filename().string(), kPart, "$1");
}

std::string text_of(const nlohmann::json& note, const char* key, const fs::path& file) {
  const auto found = note.find(key);
  if (found != note.end() && found->is_string()) return found->get<std::string>();
  throw Error({.file = file.string(),
               .place = std::string("key ") + key,
               .reason = "is no text",
               .remedy = "give both models to verify: pastkv verify A B"});
}

}  // namespace

fs::path note_path(const fs::path& artifact) {
  const fs::path path = plain(artifact);
  return fs::is_directory(path) && path.extension() != ".mlpackage" ? path / kInFolder : beside(path);
}

void write_source_note(const fs::path& artifact, const SourceNote& note) {
  const fs::path path = note_path(artifact);
  const fs::path source = fs::weakly_canonical(fs::absolute(note.source));
  const fs::path relative = plain(source).lexically_relative(fs::weakly_canonical(path.parent_path()));
  const nlohmann::ordered_json out = {
      {"source", (relative.empty() ? source : relative).string()}, {"source_hash", note.hash}, {"target", note.target}};
  OutputFile file(path, /*replace=*/true);
  file.write(out.dump(2) + "\n");
  file.commit();
}

std::optional<SourceNote> find_source_note(const fs::path& artifact) {
  const fs::path path = plain(artifact);
  const std::vector<fs::path> places = {beside(path), beside(without_part(path)), path / kInFolder,
                                        path.parent_path() / kInFolder, path.parent_path().parent_path() / kInFolder};
  for (const fs::path& place : places) {
    std::error_code ignored;
    if (!fs::is_regular_file(place, ignored)) continue;
    const nlohmann::json note = formats::read_json_object(place);
    const fs::path source = text_of(note, "source", place);
    return SourceNote{.source = (place.parent_path() / source).lexically_normal(),
                      .hash = text_of(note, "source_hash", place),
                      .target = text_of(note, "target", place)};
  }
  return std::nullopt;
}

}  // namespace pastkv::bench
