// Gemma 3, text: five layers slide for each full one, and the two kinds have ropes of their own; scaling is for the
// full layers only. The text part of the models with vision too.
// Source: transformers, models/gemma3/modeling_gemma3.py.
#include <array>
#include <optional>

#include "models/families.h"
#include "models/gemma.h"
#include "models/rope_config.h"

namespace pastkv::models {
namespace {

constexpr std::array<std::string_view, 2> kHf = {"gemma3_text", "gemma3"};
constexpr std::array<std::string_view, 1> kGguf = {"gemma3"};
constexpr std::size_t kLayersOf27B = 62;
constexpr std::int64_t kPattern = 6;
constexpr double kLocalTheta = 10000.0;

constexpr std::array<WeightName, 16> kWeights = {{
    {"embedding", "model.embed_tokens", "token_embd"},
    {"layers.{}.attention_norm", "model.layers.{}.input_layernorm", "blk.{}.attn_norm"},
    {"layers.{}.attention.query", "model.layers.{}.self_attn.q_proj", "blk.{}.attn_q"},
    {"layers.{}.attention.key", "model.layers.{}.self_attn.k_proj", "blk.{}.attn_k"},
    {"layers.{}.attention.value", "model.layers.{}.self_attn.v_proj", "blk.{}.attn_v"},
    {"layers.{}.attention.query_norm", "model.layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm"},
    {"layers.{}.attention.key_norm", "model.layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm"},
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

// The text model's tensors in the files of models with vision, as older and newer transformers name them.
constexpr std::array<Renaming, 3> kRenamed = {{
    {"language_model.model.", "model."},
    {"language_model.lm_head.", "lm_head."},
    {"model.language_model.", "model."},
}};

constexpr std::array<std::string_view, 9> kIgnored = {
    kCommonIgnored[0],     kCommonIgnored[1],        kCommonIgnored[2],
    kCommonIgnored[3],     kCommonIgnored[4],        "vision_tower.",
    "model.vision_tower.", "multi_modal_projector.", "model.multi_modal_projector."};

void use_ropes(RopeSettings local, ModelConfig& out) {
  add_rope(std::move(local), out);
  for (LayerConfig& layer : out.layers) layer.rope = layer.window == 0 ? 0 : 1;
}

void read_hf(const HfConfig& whole, ModelConfig& out) {
  const std::optional<HfConfig> inner = whole.find_object("text_config");
  const HfConfig& config = inner ? *inner : whole;
  if (config.find_bool("use_bidirectional_attention").value_or(false)) {
    config.fail("use_bidirectional_attention", "is true, which is not supported", "this is a model for embeddings");
  }
  // The published files leave most sizes to the class.
  read_gemma_hf(config,
                {.vocab = 262208,
                 .hidden = 2304,
                 .layers = 26,
                 .intermediate = 9216,
                 .heads = 8,
                 .kv_heads = 4,
                 .head_dim = 256,
                 .max_positions = 131072,
                 .rope_theta = 1000000.0,
                 .tied = true,
                 .activation_key = "hidden_activation",
                 .activation = "gelu_pytorch_tanh"},
                out);
  out.final_softcap = read_gemma_cap(config, "final_logit_softcapping", 0.0);
  const auto pattern = static_cast<std::size_t>(config.size("sliding_window_pattern", kMaxLayers, kPattern));
  set_hf_windows(
      config, config.size("sliding_window", kMaxPositions, 4096),
      [&](std::size_t layer) { return (layer + 1) % pattern != 0; }, out);
  const std::optional<HfConfig> parameters = config.find_object("rope_parameters");
  const std::int64_t head_dim = out.layers[0].head_dim;
  const double local_theta = config.positive("rope_local_base_freq", kLocalTheta);
  use_ropes(parameters && parameters->has("sliding_attention")
                ? read_hf_rope(config, "sliding_attention", local_theta, head_dim, out.max_positions)
                : plain_rope(local_theta, head_dim),
            out);
}

void read_gguf(const GgufConfig& config, ModelConfig& out) {
  read_gemma_gguf(config, out);
  if (config.file().metadata.contains(config.key("final_logit_softcapping"))) {
    out.final_softcap = static_cast<float>(config.positive("final_logit_softcapping"));
  }
  read_gguf_windows(config, config.window(), kPattern, out);
  use_ropes(plain_rope(config.positive("rope.freq_base_swa", kLocalTheta), out.ropes[0].rotary_dim), out);
}

void write_hf(const ModelConfig& config, HfJson& out) {
  write_gemma_hf(config, {.model_type = "gemma3_text", .class_name = "Gemma3ForCausalLM"}, out);
  if (config.rope_settings.at(1).kind != RopeKind::plain) fail_hf("rope_local_base_freq", "is for a plain rope");
  out["rope_local_base_freq"] = config.rope_settings[1].base;
}

graph::Graph build(const ModelConfig& config) {
  return build_gemma(config, true);
}

}  // namespace

const Architecture kGemma3 = {
    .name = "gemma3",
    .hf_model_types = kHf,
    .gguf_names = kGguf,
    .weights = kWeights,
    .renamed = kRenamed,
    .ignored = kIgnored,
    .gguf = {.architecture = "gemma3",
             .added_to_norms = 1.0F,
             .window_is_read = true,
             .layers_of_wide_scale = kLayersOf27B},
    .counts_positions = true,
    .read_hf = read_hf,
    .read_gguf = read_gguf,
    .write_hf = write_hf,
    .build = build,
};

}  // namespace pastkv::models
