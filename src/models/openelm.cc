// OpenELM: heads, key/value heads and MLP width differ from layer to layer; fused projections, norms on query and key.
// Source: corenet/modeling/models/language_modeling/general_gpt.py of github.com/apple/corenet; the names of the
// published weights are those of its Hugging Face port.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "models/decoder.h"
#include "models/families.h"
#include "models/rope_config.h"

namespace pastkv::models {
namespace {

constexpr std::array<std::string_view, 1> kNames = {"openelm"};

constexpr std::array<WeightName, 13> kWeights = {{
    {"embedding", "transformer.token_embeddings", "token_embd"},
    {"layers.{}.attention_norm", "transformer.layers.{}.attn_norm", "blk.{}.attn_norm"},
    {"layers.{}.attention.qkv", "transformer.layers.{}.attn.qkv_proj", "blk.{}.attn_qkv"},
    {"layers.{}.attention.query_norm", "transformer.layers.{}.attn.q_norm", "blk.{}.attn_q_norm"},
    {"layers.{}.attention.key_norm", "transformer.layers.{}.attn.k_norm", "blk.{}.attn_k_norm"},
    {"layers.{}.attention.output", "transformer.layers.{}.attn.out_proj", "blk.{}.attn_output"},
    {"layers.{}.mlp_norm", "transformer.layers.{}.ffn_norm", "blk.{}.ffn_norm"},
    {"layers.{}.mlp.gate_up", "transformer.layers.{}.ffn.proj_1", ""},
    {"layers.{}.mlp.gate", "", "blk.{}.ffn_gate"},
    {"layers.{}.mlp.up", "", "blk.{}.ffn_up"},
    {"layers.{}.mlp.down", "transformer.layers.{}.ffn.proj_2", "blk.{}.ffn_down"},
    {"final_norm", "transformer.norm", "output_norm"},
    {"output", "lm_head", "output"},
}};

// The nearest multiple of `divisor`, half up, at least one, and one more where that lost over a tenth.
std::int64_t make_divisible(double exact, std::int64_t divisor) {
  const auto rounded = static_cast<std::int64_t>(exact + static_cast<double>(divisor) / 2) / divisor * divisor;
  const std::int64_t least = std::max(divisor, rounded);
  return static_cast<double>(least) < 0.9 * exact ? least + divisor : least;
}

// One multiplier per layer: given so, or as one for all, or as the ends of a line rounded to two decimals.
std::vector<double> read_multipliers(const HfConfig& config, std::size_t layers) {
  constexpr std::string_view kKey = "ffn_multipliers";
  std::vector<double> values = config.find_floats(kKey).value_or(std::vector<double>{});
  if (values.size() == 1) values.assign(layers, values[0]);
  if (values.size() == 2 && layers > 2) {
    const double first = values[0];
    const double step = (values[1] - first) / static_cast<double>(layers - 1);
    values.resize(layers);
    for (std::size_t i = 0; i < layers; ++i) {
      values[i] = std::nearbyint((first + step * static_cast<double>(i)) * 100) / 100;
    }
  }
  if (values.size() != layers) {
    config.fail(kKey, fmt::format("has {} entries for {} layers", values.size(), layers));
  }
  return values;
}

std::vector<std::int64_t> read_heads(const HfConfig& config, std::string_view key, std::size_t layers) {
  const auto heads = config.find_ints(key);
  if (!heads) config.fail(key, "is missing");
  if (heads->size() != layers) config.fail(key, fmt::format("has {} entries for {} layers", heads->size(), layers));
  for (const std::int64_t count : *heads) {
    if (count < 1 || count > kMaxHeads) config.fail(key, fmt::format("holds {}, wanted 1 to {}", count, kMaxHeads));
  }
  return *heads;
}

void require_true(const HfConfig& config, std::string_view key) {
  if (!config.find_bool(key).value_or(true)) config.fail(key, "is false, which is not supported");
}

void read_hf(const HfConfig& config, ModelConfig& out) {
  require_true(config, "ffn_with_glu");
  require_true(config, "normalize_qk_projections");
  out.vocab = config.size("vocab_size", kMaxVocab);
  out.hidden = config.size("model_dim", kMaxWidth);
  out.max_positions = config.size("max_context_length", kMaxPositions, 2048);
  const auto layers = static_cast<std::size_t>(config.size("num_transformer_layers", kMaxLayers));
  const std::int64_t head_dim = config.size("head_dim", kMaxHeadDim);
  if (head_dim % 2 != 0) config.fail("head_dim", fmt::format("is {}, wanted an even number", head_dim));
  const std::int64_t divisor = config.size("ffn_dim_divisor", kMaxWidth, 256);
  const auto heads = read_heads(config, "num_query_heads", layers);
  const auto kv_heads = read_heads(config, "num_kv_heads", layers);
  const auto multipliers = read_multipliers(config, layers);
  for (std::size_t i = 0; i < layers; ++i) {
    const double width = multipliers[i] * static_cast<double>(out.hidden);
    if (!(width > 0) || width > static_cast<double>(kMaxWidth)) {
      config.fail("ffn_multipliers", fmt::format("holds {}, which makes an MLP of width {}", multipliers[i], width));
    }
    out.layers.push_back({.heads = heads[i],
                          .kv_heads = kv_heads[i],
                          .head_dim = head_dim,
                          .intermediate = make_divisible(width, divisor)});
  }
  add_rope(plain_rope(config.positive("rope_freq_constant", 10000.0), head_dim), out);
  out.norm_epsilon = 1e-6F;  // in the code, not in the file
  out.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim)));
  out.activation = read_hf_activation(config, "activation_fn_name", "swish");
  out.fused_gate_up = true;
  out.tied = config.find_bool("share_input_output_layers").value_or(true);
}

// The width of an MLP as the configuration has it: a multiple of hidden, from which the width is found again.
void write_hf(const ModelConfig& config, HfJson& out) {
  constexpr std::int64_t kDivisor = 1;
  out["architectures"] = {"OpenELMForCausalLM"};
  out["model_type"] = "openelm";
  out["vocab_size"] = config.vocab;
  out["model_dim"] = config.hidden;
  out["num_transformer_layers"] = config.layers.size();
  out["head_dim"] = config.layers[0].head_dim;
  out["max_context_length"] = config.max_positions;
  out["rope_max_length"] = 2 * config.max_positions;
  out["rope_freq_constant"] = config.rope_settings.at(0).base;
  out["ffn_dim_divisor"] = kDivisor;
  HfJson heads = HfJson::array();
  HfJson kv_heads = HfJson::array();
  HfJson multipliers = HfJson::array();
  for (const LayerConfig& layer : config.layers) {
    heads.push_back(layer.heads);
    kv_heads.push_back(layer.kv_heads);
    multipliers.push_back(static_cast<double>(layer.intermediate) / static_cast<double>(config.hidden));
  }
  out["num_query_heads"] = heads;
  out["num_kv_heads"] = kv_heads;
  out["ffn_multipliers"] = multipliers;
  out["ffn_with_glu"] = true;
  out["normalize_qk_projections"] = true;
  out["normalization_layer_name"] = "rms_norm";
  out["activation_fn_name"] = "swish";
  out["share_input_output_layers"] = config.tied;
}

graph::Graph build(const ModelConfig& config) {
  return build_prenorm_decoder(config, [](Decoder& decoder, graph::ValueId x, std::size_t layer) {
    return decoder.normalize(decoder.project_fused(x, layer), layer);
  });
}

}  // namespace

const Architecture kOpenElm = {
    .name = "openelm",
    .hf_model_types = kNames,
    .gguf_names = kNames,
    .weights = kWeights,
    .renamed = {},
    .ignored = kCommonIgnored,
    .gguf = {.architecture = "openelm"},
    .read_hf = read_hf,
    .read_gguf = read_gguf_decoder,
    .write_hf = write_hf,
    .build = build,
};

}  // namespace pastkv::models
