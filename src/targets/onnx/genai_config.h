// The settings that onnxruntime-genai reads beside a model: genai_config.json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "models/model.h"

namespace pastkv::targets {

// `config` is the model's config.json. `file`: the model's path from the folder. `position_ids`: whether the model has
// that input.
nlohmann::ordered_json genai_config(const models::Model& model, const nlohmann::ordered_json& config,
                                    const std::string& file, bool position_ids);

}  // namespace pastkv::targets
