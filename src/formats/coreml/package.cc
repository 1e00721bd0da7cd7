#include "formats/coreml/package.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <array>
#include <climits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "formats/json_file.h"
#include "formats/names.h"

namespace pastkv::formats::coreml {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& file, std::string place, std::string reason, std::string remedy = {}) {
  throw Error(
      {.file = file.string(), .place = std::move(place), .reason = std::move(reason), .remedy = std::move(remedy)});
}

std::uint64_t fnv1a(std::string_view text, std::uint64_t hash) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return hash;
}

// In the form of a UUID of version 8, which leaves its bits to whoever makes it.
std::string identifier(std::string_view item, const std::string& content) {
  const std::uint64_t high = fnv1a(content, fnv1a(item, 0xCBF29CE484222325ULL));
  const std::uint64_t low = fnv1a(content, fnv1a(item, high));
  return fmt::format("{:08X}-{:04X}-8{:03X}-{:04X}-{:012X}", high >> 32, (high >> 16) & 0xFFFF, high & 0xFFF,
                     0x8000 | ((low >> 48) & 0x3FFF), low & 0xFFFFFFFFFFFF);
}

// `name` from a file, as a path below `folder`. Neither the name nor a link on its way may lead out of `package`.
fs::path inside(const fs::path& package, const fs::path& folder, const std::string& name, const fs::path& said_by,
                const std::string& place) {
  const fs::path relative(name);
  bool leaves = name.empty() || relative.is_absolute() || name.find('\0') != std::string::npos;
  for (const fs::path& part : relative) leaves = leaves || part == "..";
  std::error_code error;
  const fs::path whole = folder / relative;
  if (!leaves) {
    const fs::path root = fs::weakly_canonical(package, error);
    const fs::path real = error ? fs::path() : fs::weakly_canonical(whole, error);
    if (error) fail(said_by, place, fmt::format("{}: {}", shown(name), error.message()));
    const fs::path below = real.lexically_relative(root);
    leaves = below.empty() || *below.begin() == "..";
  }
  if (leaves) fail(said_by, place, fmt::format("the path {} leaves the package", shown(name)));
  return whole;
}

std::string text_of(const nlohmann::json& object, const char* key, const fs::path& file, const std::string& place) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) fail(file, place, fmt::format("has no text for \"{}\"", key));
  return found->get<std::string>();
}

// Three numbers with dots between them, not above 1.0.0.
void check_version(const std::string& version, const fs::path& file) {
  if (version != "1.0.0") {
    fail(file, "fileFormatVersion", fmt::format("is {}, wanted 1.0.0", shown(version)), "write it with an older tool");
  }
}

proto::Model parse(const fs::path& path) {
  const auto file = open_weights(path);
  const auto bytes = file->bytes();
  if (bytes.size() > INT_MAX) {
    fail(path, {}, fmt::format("is {} bytes, more than the {} a model may have", bytes.size(), INT_MAX));
  }
  proto::Model model;
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  if (!model.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
    fail(path, fmt::format("byte {}", stream.CurrentPosition()), "is no Core ML model, or a damaged one",
         "copy it again");
  }
  if (!model.has_mlprogram()) {
    fail(path, {}, "holds no ML program", "convert it for iOS 15 or later, to the type mlprogram");
  }
  return model;
}

}  // namespace

std::string serialized(const proto::Model& model) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  model.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

std::string manifest(const std::string& model_bytes) {
  const std::string model_id = identifier("model.mlmodel", model_bytes);
  const std::string weights_id = identifier("weights", model_bytes);
  const auto item = [](const char* name, const char* description) {
    return nlohmann::json{{"path", fmt::format("com.apple.CoreML/{}", name)},
                          {"name", name},
                          {"author", "com.apple.CoreML"},
                          {"description", description}};
  };
  const nlohmann::json document{{"fileFormatVersion", "1.0.0"},
                                {"itemInfoEntries",
                                 {{model_id, item("model.mlmodel", "CoreML Model Specification")},
                                  {weights_id, item("weights", "CoreML Model Weights")}}},
                                {"rootModelIdentifier", model_id}};
  return document.dump(4) + "\n";
}

MlPackage read_package(const fs::path& path) {
  const fs::path file = path / kManifestPath;
  std::error_code error;
  if (!fs::is_directory(path, error)) fail(path, {}, "is no folder", "give the path of the .mlpackage folder");
  if (!fs::exists(file, error)) fail(path, {}, "holds no Manifest.json", "give the path of the .mlpackage folder");
  const nlohmann::json document = read_json_object(file);
  check_version(text_of(document, "fileFormatVersion", file, {}), file);
  const std::string root = text_of(document, "rootModelIdentifier", file, {});
  const auto items = document.find("itemInfoEntries");
  if (items == document.end() || !items->is_object()) fail(file, {}, "has no object \"itemInfoEntries\"");
  const auto item = items->find(root);
  if (item == items->end() || !item->is_object()) {
    fail(file, "rootModelIdentifier", fmt::format("names {}, which is no item", shown(root)));
  }
  const std::string place = "item " + shown(root);
  MlPackage package{.path = path, .model_path = {}, .model = {}};
  package.model_path = inside(path, path / "Data", text_of(*item, "path", file, place), file, place);
  package.model = parse(package.model_path);
  return package;
}

fs::path weight_file(const MlPackage& package, const std::string& name) {
  constexpr std::string_view kPrefix = "@model_path/";
  const std::string place = "weight file " + shown(name);
  if (!name.starts_with(kPrefix)) fail(package.model_path, place, fmt::format("does not begin with {}", kPrefix));
  return inside(package.path, package.model_path.parent_path(), name.substr(kPrefix.size()), package.model_path, place);
}

}  // namespace pastkv::formats::coreml
