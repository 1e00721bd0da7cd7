// Qwen3, dense: Llama's order with a norm on each head of query and key before the rope, and a head_dim of its own.
// Source: transformers, models/qwen3/modeling_qwen3.py.
#include <array>

#include "models/decoder.h"
#include "models/families.h"

namespace pastkv::models {
namespace {

constexpr std::array<std::string_view, 1> kNames = {"qwen3"};

constexpr std::array<WeightName, 14> kWeights = {{
    {"embedding", "model.embed_tokens", "token_embd"},
    {"layers.{}.attention_norm", "model.layers.{}.input_layernorm", "blk.{}.attn_norm"},
    {"layers.{}.attention.query", "model.layers.{}.self_attn.q_proj", "blk.{}.attn_q"},
    {"layers.{}.attention.key", "model.layers.{}.self_attn.k_proj", "blk.{}.attn_k"},
    {"layers.{}.attention.value", "model.layers.{}.self_attn.v_proj", "blk.{}.attn_v"},
    {"layers.{}.attention.query_norm", "model.layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm"},
    {"layers.{}.attention.key_norm", "model.layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm"},
    {"layers.{}.attention.output", "model.layers.{}.self_attn.o_proj", "blk.{}.attn_output"},
    {"layers.{}.mlp_norm", "model.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"},
    {"layers.{}.mlp.gate", "model.layers.{}.mlp.gate_proj", "blk.{}.ffn_gate"},
    {"layers.{}.mlp.up", "model.layers.{}.mlp.up_proj", "blk.{}.ffn_up"},
    {"layers.{}.mlp.down", "model.layers.{}.mlp.down_proj", "blk.{}.ffn_down"},
    {"final_norm", "model.norm", "output_norm"},
    {"output", "lm_head", "output"},
}};

void read_hf(const HfConfig& config, ModelConfig& out) {
  read_hf_decoder(config, {.head_dim = config.is_null("head_dim") ? 0 : 128, .max_positions = 32768}, out);
  out.attention_bias = config.find_bool("attention_bias").value_or(false);
  out.output_bias = out.attention_bias;
  if (!config.find_bool("use_sliding_window").value_or(false)) return;
  const std::int64_t first = config.find_int("max_window_layers").value_or(28);
  set_hf_windows(
      config, read_hf_window(config, 4096),
      [&](std::size_t layer) { return static_cast<std::int64_t>(layer) >= first; }, out);
}

void read_gguf(const GgufConfig& config, ModelConfig& out) {
  read_gguf_decoder(config, out);
  out.attention_bias = config.file().tensors.find("blk.0.attn_q.bias") != nullptr;
  out.output_bias = config.file().tensors.find("blk.0.attn_output.bias") != nullptr;
  read_gguf_windows(config, config.window(), kAllSlide, out);
}

void write_hf(const ModelConfig& config, HfJson& out) {
  if (config.attention_bias != config.output_bias)
    fail_hf("attention_bias", "is for query, key, value and output alike");
  write_hf_decoder(config, {.model_type = "qwen3", .class_name = "Qwen3ForCausalLM"}, out);
  out["attention_bias"] = config.attention_bias;
  write_hf_windows(config, out);
  out["use_sliding_window"] = out.contains("layer_types");
}

graph::Graph build(const ModelConfig& config) {
  return build_prenorm_decoder(config, [](Decoder& decoder, graph::ValueId x, std::size_t layer) {
    return decoder.normalize(decoder.project(x, layer), layer);
  });
}

}  // namespace

const Architecture kQwen3 = {
    .name = "qwen3",
    .hf_model_types = kNames,
    .gguf_names = kNames,
    .weights = kWeights,
    .renamed = {},
    .ignored = kCommonIgnored,
    .gguf = {.architecture = "qwen3"},
    .read_hf = read_hf,
    .read_gguf = read_gguf,
    .write_hf = write_hf,
    .build = build,
};

}  // namespace pastkv::models
