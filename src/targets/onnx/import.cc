#include "targets/onnx/import.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "formats/json_file.h"
#include "models/config.h"
#include "targets/onnx/importer.h"

namespace pastkv::targets {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// What lies beside the model, or above its folder `onnx/`; null when there is none.
json beside(const std::vector<fs::path>& folders, const char* name) {
  for (const fs::path& folder : folders) {
    if (fs::is_regular_file(folder / name)) return formats::read_json_object(folder / name);
  }
  return {};
}

void take_ids(const json& ids, std::vector<std::int32_t>& out) {
  if (ids.is_number_integer()) out.push_back(ids.get<std::int32_t>());
  if (!ids.is_array()) return;
  for (const json& id : ids) {
    if (id.is_number_integer()) out.push_back(id.get<std::int32_t>());
  }
}

// Where the files beside the model may lie.
std::vector<fs::path> folders_of(const fs::path& file) {
  const fs::path own = file.has_parent_path() ? file.parent_path() : fs::path(".");
  if (own.filename() != "onnx") return {own};
  return {own, own.has_parent_path() ? own.parent_path() : fs::path(".")};
}

// Channels of a head, for files whose caches do not say it; 0 when nothing does.
std::int64_t head_width(const std::vector<fs::path>& folders) {
  const json::json_pointer place("/model/decoder/head_size");
  const json config = beside(folders, "genai_config.json");
  if (!config.is_object() || !config.contains(place) || !config[place].is_number_integer()) return 0;
  const auto width = config[place].get<std::int64_t>();
  return width > 0 && width <= models::kMaxHeadDim ? width : 0;
}

void read_side_files(const std::vector<fs::path>& folders, ImportedModel& out) {
  for (const fs::path& folder : folders) {
    if (out.tokenizer_folder.empty() && fs::is_regular_file(folder / "tokenizer.json")) out.tokenizer_folder = folder;
  }
  const json config = beside(folders, "config.json");
  const json generation = beside(folders, "generation_config.json");
  for (const json* settings : {&config, &generation}) {
    if (settings->is_object() && settings->contains("eos_token_id")) take_ids((*settings)["eos_token_id"], out.eos_ids);
  }
  std::ranges::sort(out.eos_ids);
  const auto rest = std::ranges::unique(out.eos_ids);
  out.eos_ids.erase(rest.begin(), rest.end());
  const auto positions = config.is_object() ? config.find("max_position_embeddings") : config.end();
  if (config.is_object() && positions != config.end() && positions->is_number_integer()) {
    out.max_positions = positions->get<std::int64_t>();
  }
}

std::string model_name(const fs::path& file) {
  fs::path folder = fs::absolute(file).parent_path();
  if (folder.filename() == "onnx") folder = folder.parent_path();
  return file.stem() == "model" ? folder.filename().string() : file.stem().string();
}

}  // namespace

ImportedModel import_onnx(const fs::path& path) {
  // Weights are read from the mapped files for as long as the model is used.
  const auto file = std::make_shared<const formats::OnnxFile>(formats::OnnxFile::open(path));
  ImportedModel out;
  out.name = model_name(file->path());
  out.format = "onnx";
  const std::vector<fs::path> folders = folders_of(file->path());
  OnnxImporter(*file, head_width(folders)).run(out);
  out.file_bytes = file->file_bytes();
  read_side_files(folders, out);
  out.facts.emplace_back("opset", fmt::format("{}", file->opset()));
  const std::string producer = file->model().producer_name();
  if (!producer.empty()) out.facts.emplace_back("producer", producer + " " + file->model().producer_version());
  return out;
}

}  // namespace pastkv::targets
