// Phi-3, Phi-3.5 and Phi-4: fused projections, a part of each head rotating, longrope for the long-context ones.
// Source: transformers, models/phi3/modeling_phi3.py.
#include <array>

#include "models/decoder.h"
#include "models/families.h"

namespace pastkv::models {
namespace {

constexpr std::array<std::string_view, 1> kNames = {"phi3"};

constexpr std::array<WeightName, 9> kWeights = {{
    {"embedding", "model.embed_tokens", "token_embd"},
    {"layers.{}.attention_norm", "model.layers.{}.input_layernorm", "blk.{}.attn_norm"},
    {"layers.{}.attention.qkv", "model.layers.{}.self_attn.qkv_proj", "blk.{}.attn_qkv"},
    {"layers.{}.attention.output", "model.layers.{}.self_attn.o_proj", "blk.{}.attn_output"},
    {"layers.{}.mlp_norm", "model.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"},
    {"layers.{}.mlp.gate_up", "model.layers.{}.mlp.gate_up_proj", "blk.{}.ffn_up"},
    {"layers.{}.mlp.down", "model.layers.{}.mlp.down_proj", "blk.{}.ffn_down"},
    {"final_norm", "model.norm", "output_norm"},
    {"output", "lm_head", "output"},
}};

void read_hf(const HfConfig& config, ModelConfig& out) {
  read_hf_decoder(config, {.max_positions = 4096, .norm_epsilon = 1e-5}, out);
  out.fused_gate_up = true;
  set_hf_windows(config, read_hf_window(config, 0), [](std::size_t) { return true; }, out);
}

void read_gguf(const GgufConfig& config, ModelConfig& out) {
  read_gguf_decoder(config, out);
  out.fused_gate_up = true;
  read_gguf_windows(config, config.window(), kAllSlide, out);
}

void write_hf(const ModelConfig& config, HfJson& out) {
  write_hf_decoder(config, {.model_type = "phi3", .class_name = "Phi3ForCausalLM"}, out);
  write_hf_windows(config, out);
  out.erase("layer_types");  // all layers or none
  const RopeSettings& rope = config.rope_settings.at(0);
  if (rope.kind != RopeKind::longrope) return;
  // The class computes the attention factor itself, and takes these three keys and no other.
  out["original_max_position_embeddings"] = rope.original_positions;
  HfJson& scaling = out["rope_scaling"];
  scaling = {{"type", "longrope"}, {"short_factor", scaling["short_factor"]}, {"long_factor", scaling["long_factor"]}};
}

graph::Graph build(const ModelConfig& config) {
  return build_prenorm_decoder(
      config, [](Decoder& decoder, graph::ValueId x, std::size_t layer) { return decoder.project_fused(x, layer); });
}

}  // namespace

const Architecture kPhi3 = {
    .name = "phi3",
    .hf_model_types = kNames,
    .gguf_names = kNames,
    .weights = kWeights,
    .renamed = {},
    .ignored = kCommonIgnored,
    .gguf = {.architecture = "phi3"},
    .read_hf = read_hf,
    .read_gguf = read_gguf,
    .write_hf = write_hf,
    .build = build,
};

}  // namespace pastkv::models
