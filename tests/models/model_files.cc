#include "models/model_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "base/error.h"
#include "formats/safetensors.h"
#include "models/architecture.h"

namespace pastkv::test {
namespace {

namespace fs = std::filesystem;

StoredTensors read_all(const fs::path& file) {
  formats::TensorSource source;
  formats::read_safetensors(file, source);
  StoredTensors tensors;
  for (const formats::TensorEntry& entry : source.tensors()) {
    tensors[entry.name] = {.shape = entry.shape,
                           .bytes = {reinterpret_cast<const char*>(entry.bytes.data()), entry.bytes.size()}};
  }
  return tensors;
}

}  // namespace

void write_safetensors(const fs::path& file, const StoredTensors& tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  const std::string text = header.dump();
  const std::uint64_t length = text.size();
  std::string start(sizeof(length), '\0');
  std::memcpy(start.data(), &length, sizeof(length));
  std::ofstream(file, std::ios::binary) << start << text << data;
}

ChangedModel::ChangedModel(const std::string& golden, const ChangeConfig& config, const ChangeTensors& tensors) {
  static int number = 0;
  path_ =
      fs::path(testing::TempDir()) / ("pastkv_model_" + std::to_string(::getpid()) + "_" + std::to_string(number++));
  fs::remove_all(path_);
  fs::create_directories(path_);
  const fs::path source = fs::path(PASTKV_TEST_DATA) / "models" / golden;
  nlohmann::json json = nlohmann::json::parse(std::ifstream(source / "config.json"));
  if (config) config(json);
  write("config.json", json.dump());
  StoredTensors stored = read_all(source / "model.safetensors");
  if (tensors) tensors(stored);
  write_safetensors(path_ / "model.safetensors", stored);
}

ChangedModel::~ChangedModel() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void ChangedModel::write(const std::string& name, const std::string& text) const {
  std::ofstream(path_ / name, std::ios::binary) << text;
}

models::ModelConfig read_config(const nlohmann::json& config) {
  static const formats::TensorSource kNoTensors;
  const models::Architecture* architecture = models::find_by_hf(config.at("model_type").get<std::string>());
  models::ModelConfig out;
  out.architecture = architecture->name;
  architecture->read_hf(models::HfConfig(config, "config.json", kNoTensors), out);
  models::check_config(out, "config.json");
  return out;
}

}  // namespace pastkv::test
