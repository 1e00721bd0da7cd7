// Gemma 2: every other layer slides, scores and logits are capped.
// Source: transformers, models/gemma2/modeling_gemma2.py.
#include <array>

#include "models/families.h"
#include "models/gemma.h"

namespace pastkv::models {
namespace {

constexpr std::array<std::string_view, 1> kNames = {"gemma2"};
constexpr std::size_t kLayersOf27B = 46;
constexpr double kAttentionCap = 50.0;
constexpr double kFinalCap = 30.0;
constexpr std::int64_t kWindow = 4096;

constexpr std::array<WeightName, 14> kWeights = {{
    {"embedding", "model.embed_tokens", "token_embd"},
    {"layers.{}.attention_norm", "model.layers.{}.input_layernorm", "blk.{}.attn_norm"},
    {"layers.{}.attention.query", "model.layers.{}.self_attn.q_proj", "blk.{}.attn_q"},
    {"layers.{}.attention.key", "model.layers.{}.self_attn.k_proj", "blk.{}.attn_k"},
    {"layers.{}.attention.value", "model.layers.{}.self_attn.v_proj", "blk.{}.attn_v"},
    {"layers.{}.attention.output", "model.layers.{}.self_attn.o_proj", "blk.{}.attn_output"},
    {"layers.{}.attention_post_norm", "model.layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm"},
    {"layers.{}.mlp_norm", "model.layers.{}.pre_feedforward_layernorm", "blk.{}.ffn_norm"},
    {"layers.{}.mlp.gate", "model.layers.{}.mlp.gate_proj", "blk.{}.ffn_gate"},
    {"layers.{}.mlp.up", "model.layers.{}.mlp.up_proj", "blk.{}.ffn_up"},
    {"layers.{}.mlp.down", "model.layers.{}.mlp.down_proj", "blk.{}.ffn_down"},
    {"layers.{}.mlp_post_norm", "model.layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm"},
    {"final_norm", "model.norm", "output_norm"},
    {"output", "lm_head", "output"},
}};

void read_hf(const HfConfig& config, ModelConfig& out) {
  read_gemma_hf(config,
                {.kv_heads = config.is_null("num_key_value_heads") ? 0 : 4,
                 .head_dim = config.is_null("head_dim") ? 0 : 256,
                 .max_positions = 8192,
                 .tied = true,
                 .activation_key = "hidden_activation",
                 .activation = "gelu_pytorch_tanh"},
                out);
  out.attention_softcap = read_gemma_cap(config, "attn_logit_softcapping", kAttentionCap);
  out.final_softcap = read_gemma_cap(config, "final_logit_softcapping", kFinalCap);
  set_hf_windows(config, read_hf_window(config, kWindow), [](std::size_t layer) { return layer % 2 == 0; }, out);
}

void read_gguf(const GgufConfig& config, ModelConfig& out) {
  read_gemma_gguf(config, out);
  out.attention_softcap = static_cast<float>(config.positive("attn_logit_softcapping", kAttentionCap));
  out.final_softcap = static_cast<float>(config.positive("final_logit_softcapping", kFinalCap));
  read_gguf_windows(config, config.size("attention.sliding_window", kMaxPositions, kWindow), 2, out);
}

void write_hf(const ModelConfig& config, HfJson& out) {
  write_gemma_hf(config, {.model_type = "gemma2", .class_name = "Gemma2ForCausalLM"}, out);
}

graph::Graph build(const ModelConfig& config) {
  return build_gemma(config, false);
}

}  // namespace

const Architecture kGemma2 = {
    .name = "gemma2",
    .hf_model_types = kNames,
    .gguf_names = kNames,
    .weights = kWeights,
    .renamed = {},
    .ignored = kCommonIgnored,
    .gguf = {.architecture = "gemma2",
             .added_to_norms = 1.0F,
             .window_is_read = true,
             .caps_by_default = true,
             .layers_of_wide_scale = kLayersOf27B},
    .counts_positions = true,
    .read_hf = read_hf,
    .read_gguf = read_gguf,
    .write_hf = write_hf,
    .build = build,
};

}  // namespace pastkv::models
