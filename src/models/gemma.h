// What the generations of Gemma share. Source: transformers, models/gemma2 and models/gemma3.
#pragma once

#include "graph/graph.h"
#include "models/gguf_config.h"
#include "models/hf_config.h"
#include "models/hf_config_write.h"

namespace pastkv::models {

// Sizes and everything the generations share, after which a family's own keys are read. `config` holds the text
// model's keys.
void read_gemma_hf(const HfConfig& config, const HfDefaults& defaults, ModelConfig& out);
void read_gemma_gguf(const GgufConfig& config, ModelConfig& out);

// Keys of the text model that the generations share.
void write_gemma_hf(const ModelConfig& config, const HfNames& names, HfJson& out);

// A cap on logits: `fallback` when the key is absent, none when it is null.
float read_gemma_cap(const HfConfig& config, std::string_view key, double fallback);

// A norm before and after each half of a layer; query and key normed too if `head_norms`.
graph::Graph build_gemma(const ModelConfig& config, bool head_norms);

}  // namespace pastkv::models
