// What it takes to add an architecture: one file that fills one of these, and a line in registry.cc.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "formats/gguf.h"
#include "graph/graph.h"
#include "models/config.h"

namespace pastkv::models {

// One weight of the graph under its three names. `{}` stands for the layer's number.
struct WeightName {
  std::string_view graph;  // "layers.{}.attention.query.weight"
  std::string_view hf;     // "model.layers.{}.self_attn.q_proj.weight"
  std::string_view gguf;   // "blk.{}.attn_q.weight"
};

struct Architecture {
  std::string_view name;                             // "qwen3"
  std::span<const std::string_view> hf_model_types;  // config.json "model_type"
  std::span<const std::string_view> gguf_names;      // "general.architecture"
  std::span<const WeightName> weights;
  std::span<const std::string_view> ignored;  // tensors of files that no graph uses ("rotary_emb.inv_freq")
  void (*read_hf)(const nlohmann::json& config, ModelConfig& out);     // after the common keys were read
  void (*read_gguf)(const formats::GgufFile& file, ModelConfig& out);  // likewise
  graph::Graph (*build)(const ModelConfig& config);
};

std::span<const Architecture* const> architectures();
const Architecture* find_by_hf(std::string_view model_type);  // null when unknown
const Architecture* find_by_gguf(std::string_view name);      // null when unknown

}  // namespace pastkv::models
