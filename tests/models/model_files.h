// Writes models for tests: changed copies of a golden folder, in a temporary place.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/hf_config.h"
#include "support.h"

namespace pastkv::test {

struct StoredTensor {
  std::string dtype = "F32";  // as safetensors spells it
  std::vector<std::int64_t> shape;
  std::string bytes;
};
using StoredTensors = std::map<std::string, StoredTensor>;

void write_safetensors(const std::filesystem::path& file, const StoredTensors& tensors);

// A copy of a golden folder that has one weight file, changed by the two functions, deleted with the object.
class ChangedModel {
 public:
  using ChangeConfig = std::function<void(nlohmann::json&)>;
  using ChangeTensors = std::function<void(StoredTensors&)>;

  explicit ChangedModel(const std::string& golden, const ChangeConfig& config = {}, const ChangeTensors& tensors = {});
  ~ChangedModel();
  ChangedModel(const ChangedModel&) = delete;
  ChangedModel& operator=(const ChangedModel&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write(const std::string& name, const std::string& text) const;

 private:
  std::filesystem::path path_;
};

// The ModelConfig of a config.json's text, read by the family that its model_type names.
models::ModelConfig read_config(const nlohmann::json& config);

}  // namespace pastkv::test
