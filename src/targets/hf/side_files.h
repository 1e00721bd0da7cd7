// What lies beside the weights of a model's folder: its configuration and its tokenizer, as transformers reads them.
#pragma once

#include <string_view>

#include "base/output.h"
#include "models/hf_config_write.h"
#include "models/model.h"
#include "targets/target.h"

namespace pastkv::targets {

// config.json of the model, whatever file it came from. `torch_type`: of the weights, "float16".
models::HfJson hf_config(const models::Model& model, std::string_view torch_type);

// Writes `config`, generation_config.json, the tokenizer and the chat template; notes what there is none of.
void write_side_files(const models::Model& model, const models::HfJson& config, const OutputFolder& folder,
                      Written& written);

}  // namespace pastkv::targets
