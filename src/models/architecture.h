// What it takes to add an architecture: one file that fills one of these, and a line in registry.cc.
// docs/adding-a-model.md walks through it.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "graph/graph.h"
#include "models/config.h"
#include "models/gguf_config.h"
#include "models/hf_config.h"
#include "models/hf_config_write.h"

namespace pastkv::models {

// One module of weights under its three names, without the ending ".weight" or ".bias", which is the same in all
// three. `{}` stands for the layer's number; an empty name means that such files have no such tensor.
struct WeightName {
  std::string_view graph;  // "layers.{}.attention.query"
  std::string_view hf;     // "model.layers.{}.self_attn.q_proj"
  std::string_view gguf;   // "blk.{}.attn_q"
};

// A tensor of a file whose name begins with `from` is known by the name that begins with `to` instead.
struct Renaming {
  std::string_view from;
  std::string_view to;
};

// How the numbers of a GGUF differ from those that transformers keeps for the same model, names apart.
struct GgufForm {
  std::string_view architecture;  // "general.architecture" of what is written
  bool rope_in_pairs = false;     // rows of a query or key head lie as the pairs that rotate together
  float added_to_norms = 0.0F;    // to the weight of every norm
  // What llama.cpp does with files of this architecture.
  bool window_is_read = false;           // a sliding window is heeded
  bool rope_divisors_are_read = false;   // the tensor rope_freqs is heeded
  bool caps_by_default = false;          // scores and logits are capped where the keys are absent
  std::size_t layers_of_wide_scale = 0;  // a model of so many layers scales scores by hidden / heads, not by head_dim
};

// The factor on attention scores, for which a GGUF has no key.
float gguf_attention_scale(const GgufForm& form, const ModelConfig& config);

struct Architecture {
  std::string_view name;                             // "qwen3"
  std::span<const std::string_view> hf_model_types;  // config.json "model_type"
  std::span<const std::string_view> gguf_names;      // "general.architecture"
  std::span<const WeightName> weights;
  std::span<const Renaming> renamed;          // how other writers of the same model begin their names
  std::span<const std::string_view> ignored;  // tensors no graph uses: beginnings when they end in '.', else endings
  GgufForm gguf;
  bool counts_positions = false;  // exported decoders have no input position_ids: they count the tokens of the mask
  void (*read_hf)(const HfConfig& config, ModelConfig& out);
  void (*read_gguf)(const GgufConfig& config, ModelConfig& out);
  // The keys of config.json that transformers' class for the model reads. Throws Error when it has none for something.
  void (*write_hf)(const ModelConfig& config, HfJson& out);
  graph::Graph (*build)(const ModelConfig& config);
};

// Buffers that writers of any family leave in their files, and the tensors of a GGUF that hold its rope tables.
inline constexpr std::array<std::string_view, 5> kCommonIgnored = {"rotary_emb.inv_freq", "self_attn.masked_bias",
                                                                   "rope_freqs.weight", "rope_factors_long.weight",
                                                                   "rope_factors_short.weight"};

std::span<const Architecture* const> architectures();
const Architecture& architecture_of(const ModelConfig& config);
const Architecture* find_by_hf(std::string_view model_type);  // null when unknown
const Architecture* find_by_gguf(std::string_view name);      // null when unknown

// "llama, mistral, ...": every model_type, or every general.architecture, that can be read.
std::string known_hf_types();
std::string known_gguf_names();

}  // namespace pastkv::models
