#include "models/gemma.h"

#include <fmt/format.h>

#include <cmath>

#include "models/architecture.h"
#include "models/decoder.h"
#include "tensor/codec.h"

namespace pastkv::models {
namespace {

// The reference holds sqrt(hidden) in the type of the weights: sqrt(3072) is 55.5 for bf16.
float embedding_scale(const formats::TensorSource& tensors, std::int64_t hidden) {
  const auto scale = static_cast<float>(std::sqrt(static_cast<double>(hidden)));
  for (const formats::TensorEntry& entry : tensors.tensors()) {
    if (!entry.name.ends_with("embed_tokens.weight")) continue;
    if (entry.dtype == tensor::DType::bf16) return tensor::bf16_to_f32(tensor::f32_to_bf16(scale));
    if (entry.dtype == tensor::DType::f16) return tensor::f16_to_f32(tensor::f32_to_f16(scale));
  }
  return scale;
}

}  // namespace

float read_gemma_cap(const HfConfig& config, std::string_view key, double fallback) {
  if (config.is_null(key)) return 0.0F;
  const double cap = config.find_float(key).value_or(fallback);
  if (cap != 0 && !is_positive_float(cap)) {
    config.fail(key, fmt::format("is {}, wanted a number above 0, or null", cap));
  }
  return static_cast<float>(cap);
}

void read_gemma_hf(const HfConfig& config, const HfDefaults& defaults, ModelConfig& out) {
  read_hf_decoder(config, defaults, out);
  out.norm_weight_offset = 1.0F;
  out.embedding_scale = embedding_scale(config.tensors(), out.hidden);
  out.attention_scale = static_cast<float>(1.0 / std::sqrt(config.positive("query_pre_attn_scalar", 256.0)));
  out.attention_bias = config.find_bool("attention_bias").value_or(false);
  out.output_bias = out.attention_bias;
}

void read_gemma_gguf(const GgufConfig& config, ModelConfig& out) {
  read_gguf_decoder(config, out);
  out.norm_weight_offset = 0.0F;  // such files hold 1 + w
  out.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(out.hidden)));
  out.activation = graph::Activation::gelu_tanh;
  out.attention_scale = gguf_attention_scale(architecture_of(out).gguf, out);
}

void write_gemma_hf(const ModelConfig& config, const HfNames& names, HfJson& out) {
  HfNames own = names;
  own.activation_key = "hidden_activation";
  write_hf_decoder(config, own, out);
  write_hf_windows(config, out);
  const auto cap = [](float value) { return value != 0.0F ? HfJson(value) : HfJson(nullptr); };
  out["attn_logit_softcapping"] = cap(config.attention_softcap);
  out["final_logit_softcapping"] = cap(config.final_softcap);
  const double scale = config.attention_scale;
  out["query_pre_attn_scalar"] = std::round(1e3 / (scale * scale)) / 1e3;
  out["attention_bias"] = config.attention_bias;
}

graph::Graph build_gemma(const ModelConfig& config, bool head_norms) {
  Decoder decoder(config);
  graph::ValueId x = decoder.embed();
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    Decoder::Heads heads = decoder.project(decoder.norm(x, i, "attention_norm"), i);
    if (head_norms) heads = decoder.normalize(heads, i);
    x = decoder.add(x, decoder.norm(decoder.attend(heads, i), i, "attention_post_norm"));
    const graph::ValueId mlp = decoder.gated_mlp(decoder.norm(x, i, "mlp_norm"), i);
    x = decoder.add(x, decoder.norm(mlp, i, "mlp_post_norm"));
  }
  return decoder.finish(x);
}

}  // namespace pastkv::models
