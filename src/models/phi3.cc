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
  const std::int64_t window = config.window();
  for (LayerConfig& layer : out.layers) layer.window = window;
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
    .read_hf = read_hf,
    .read_gguf = read_gguf,
    .build = build,
};

}  // namespace pastkv::models
