// Llama and what has its shape: Llama 2 and 3, SmolLM, SmolLM2; and Mistral, whose layers slide and which calls itself
// llama in GGUF. Source: transformers, models/llama/modeling_llama.py and models/mistral/configuration_mistral.py.
#include <algorithm>
#include <array>

#include "models/decoder.h"
#include "models/families.h"

namespace pastkv::models {
namespace {

constexpr std::array<std::string_view, 1> kLlamaHf = {"llama"};
constexpr std::array<std::string_view, 1> kMistralHf = {"mistral"};
constexpr std::array<std::string_view, 1> kGguf = {"llama"};

constexpr std::array<WeightName, 12> kWeights = {{
    {"embedding", "model.embed_tokens", "token_embd"},
    {"layers.{}.attention_norm", "model.layers.{}.input_layernorm", "blk.{}.attn_norm"},
    {"layers.{}.attention.query", "model.layers.{}.self_attn.q_proj", "blk.{}.attn_q"},
    {"layers.{}.attention.key", "model.layers.{}.self_attn.k_proj", "blk.{}.attn_k"},
    {"layers.{}.attention.value", "model.layers.{}.self_attn.v_proj", "blk.{}.attn_v"},
    {"layers.{}.attention.output", "model.layers.{}.self_attn.o_proj", "blk.{}.attn_output"},
    {"layers.{}.mlp_norm", "model.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"},
    {"layers.{}.mlp.gate", "model.layers.{}.mlp.gate_proj", "blk.{}.ffn_gate"},
    {"layers.{}.mlp.up", "model.layers.{}.mlp.up_proj", "blk.{}.ffn_up"},
    {"layers.{}.mlp.down", "model.layers.{}.mlp.down_proj", "blk.{}.ffn_down"},
    {"final_norm", "model.norm", "output_norm"},
    {"output", "lm_head", "output"},
}};

void read_llama_hf(const HfConfig& config, ModelConfig& out) {
  read_hf_decoder(config, {}, out);
  out.attention_bias = config.find_bool("attention_bias").value_or(false);
  out.output_bias = out.attention_bias;
  out.mlp_bias = config.find_bool("mlp_bias").value_or(false);
}

void read_mistral_hf(const HfConfig& config, ModelConfig& out) {
  // An absent count of key/value heads is the class's 8; a null one means as many as heads.
  read_hf_decoder(config, {.kv_heads = config.is_null("num_key_value_heads") ? 0 : 8, .max_positions = 131072}, out);
  set_hf_windows(config, read_hf_window(config, 4096), [](std::size_t) { return true; }, out);
}

void read_gguf(const GgufConfig& config, ModelConfig& out) {
  if (config.file().find_int(config.key("expert_count")).value_or(0) > 0) {
    config.fail("expert_count", "is not 0", "models with experts are not supported");
  }
  read_gguf_decoder(config, out);
  // Query and key rows lie in pairs that rotate together, where transformers keeps them half a head apart.
  out.ropes[0].interleaved = true;
  // No key tells of biases: they are there or not.
  const formats::TensorSource& tensors = config.file().tensors;
  out.attention_bias = tensors.find("blk.0.attn_q.bias") != nullptr;
  out.output_bias = tensors.find("blk.0.attn_output.bias") != nullptr;
  out.mlp_bias = tensors.find("blk.0.ffn_down.bias") != nullptr;
  read_gguf_windows(config, config.window(), kAllSlide, out);
}

void write_hf(const ModelConfig& config, HfJson& out) {
  // transformers knows a sliding window in Mistral only, and biases in Llama only.
  const bool slides = std::ranges::any_of(config.layers, [](const LayerConfig& layer) { return layer.window != 0; });
  if (slides || config.architecture == kMistral.name) {
    if (config.attention_bias || config.mlp_bias) fail_hf("biases", "and a sliding window are in no class of one");
    write_hf_decoder(config, {.model_type = "mistral", .class_name = "MistralForCausalLM"}, out);
    write_hf_windows(config, out);
    out.erase("layer_types");  // all layers or none
    return;
  }
  if (config.attention_bias != config.output_bias)
    fail_hf("attention_bias", "is for query, key, value and output alike");
  write_hf_decoder(config, {.model_type = "llama", .class_name = "LlamaForCausalLM"}, out);
  out["attention_bias"] = config.attention_bias;
  out["mlp_bias"] = config.mlp_bias;
}

graph::Graph build(const ModelConfig& config) {
  return build_prenorm_decoder(
      config, [](Decoder& decoder, graph::ValueId x, std::size_t layer) { return decoder.project(x, layer); });
}

}  // namespace

const Architecture kLlama = {
    .name = "llama",
    .hf_model_types = kLlamaHf,
    .gguf_names = kGguf,
    .weights = kWeights,
    .renamed = {},
    .ignored = kCommonIgnored,
    .gguf = {.architecture = "llama", .rope_in_pairs = true, .rope_divisors_are_read = true},
    .read_hf = read_llama_hf,
    .read_gguf = read_gguf,
    .write_hf = write_hf,
    .build = build,
};

const Architecture kMistral = {
    .name = "mistral",
    .hf_model_types = kMistralHf,
    .gguf_names = {},
    .weights = kWeights,
    .renamed = {},
    .ignored = kCommonIgnored,
    .gguf = {.architecture = "llama", .rope_in_pairs = true, .rope_divisors_are_read = true},
    .read_hf = read_mistral_hf,
    .read_gguf = read_gguf,
    .write_hf = write_hf,
    .build = build,
};

}  // namespace pastkv::models
