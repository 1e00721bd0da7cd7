// The other way round than hf_config.h: a configuration as the keys of a config.json, as transformers' classes take it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "models/config.h"

namespace pastkv::models {

using HfJson = nlohmann::ordered_json;

// What a family's config.json calls the common things.
struct HfNames {
  std::string_view model_type;  // "llama"
  std::string_view class_name;  // "LlamaForCausalLM"
  std::string_view activation_key = "hidden_act";
};

// The keys that most families share: sizes, activation, norm, rope with its scaling, and the tie. Throws Error when
// layers differ in what these keys have one number for.
void write_hf_decoder(const ModelConfig& config, const HfNames& names, HfJson& out);

// "sliding_window" (null where no layer slides), and "layer_types" where some do.
void write_hf_windows(const ModelConfig& config, HfJson& out);

// rope_scaling of one rope; null when it is plain.
HfJson hf_rope_scaling(const RopeSettings& rope, const graph::RopeAttributes& tables, std::int64_t max_positions);

// "silu", "gelu_pytorch_tanh", ...
std::string_view hf_activation(graph::Activation activation);

[[noreturn]] void fail_hf(std::string_view what, std::string reason);

}  // namespace pastkv::models
