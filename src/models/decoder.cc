#include "models/decoder.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace pastkv::models {

using graph::Symbol;
using graph::ValueId;

namespace {

std::string in_layer(std::size_t layer, std::string_view name) {
  return fmt::format("layers.{}.{}", layer, name);
}

}  // namespace

Decoder::Decoder(const ModelConfig& config)
    : config_(config),
      builder_(config.architecture),
      ids_(builder_.input("input_ids", tensor::DType::i64, {Symbol::batch, Symbol::query})),
      positions_(builder_.input("position_ids", tensor::DType::i64, {Symbol::batch, Symbol::query})) {}

ValueId Decoder::weight(std::string_view module, graph::Shape shape) {
  return builder_.weight(fmt::format("{}.weight", module), std::move(shape));
}

ValueId Decoder::linear(ValueId x, const std::string& module, std::int64_t out, std::int64_t in, bool bias) {
  return builder_.linear(x, weight(module, {out, in}), bias ? builder_.weight(module + ".bias", {out}) : -1);
}

ValueId Decoder::norm_by(ValueId x, std::string_view module, std::int64_t width) {
  return builder_.rms_norm(x, weight(module, {width}),
                           {.epsilon = config_.norm_epsilon, .weight_offset = config_.norm_weight_offset});
}

ValueId Decoder::heads_of(ValueId x, std::int64_t heads, std::int64_t head_dim) {
  return builder_.reshape(x, {Symbol::batch, Symbol::query, heads, head_dim});
}

ValueId Decoder::embed() {
  const ValueId x = builder_.embedding(ids_, weight("embedding", {config_.vocab, config_.hidden}));
  return config_.embedding_scale == 1.0F ? x : builder_.scale(x, config_.embedding_scale);
}

ValueId Decoder::norm(ValueId x, std::size_t layer, std::string_view name) {
  return norm_by(x, in_layer(layer, name), config_.hidden);
}

Decoder::Heads Decoder::project(ValueId x, std::size_t layer) {
  const LayerConfig& sizes = config_.layers[layer];
  const auto part = [&](std::string_view name, std::int64_t heads) {
    const ValueId y = linear(x, in_layer(layer, name), heads * sizes.head_dim, config_.hidden, config_.attention_bias);
    return heads_of(y, heads, sizes.head_dim);
  };
  const ValueId query = part("attention.query", sizes.heads);
  const ValueId key = part("attention.key", sizes.kv_heads);
  return {.query = query, .key = key, .value = part("attention.value", sizes.kv_heads)};
}

Decoder::Heads Decoder::project_fused(ValueId x, std::size_t layer) {
  const LayerConfig& sizes = config_.layers[layer];
  const std::int64_t queries = sizes.heads * sizes.head_dim;
  const std::int64_t keys = sizes.kv_heads * sizes.head_dim;
  const ValueId fused =
      linear(x, in_layer(layer, "attention.qkv"), queries + 2 * keys, config_.hidden, config_.attention_bias);
  const std::vector<ValueId> parts = builder_.split(fused, {queries, keys, keys});
  const ValueId query = heads_of(parts[0], sizes.heads, sizes.head_dim);
  const ValueId key = heads_of(parts[1], sizes.kv_heads, sizes.head_dim);
  return {.query = query, .key = key, .value = heads_of(parts[2], sizes.kv_heads, sizes.head_dim)};
}

Decoder::Heads Decoder::normalize(const Heads& heads, std::size_t layer) {
  const std::int64_t head_dim = config_.layers[layer].head_dim;
  const ValueId query = norm_by(heads.query, in_layer(layer, "attention.query_norm"), head_dim);
  const ValueId key = norm_by(heads.key, in_layer(layer, "attention.key_norm"), head_dim);
  return {.query = query, .key = key, .value = heads.value};
}

ValueId Decoder::attend(const Heads& heads, std::size_t layer) {
  const LayerConfig& sizes = config_.layers[layer];
  const graph::RopeAttributes& rope = config_.ropes[static_cast<std::size_t>(sizes.rope)];
  const auto state = [&](std::string_view name, graph::StateRole role) {
    return builder_.state(in_layer(layer, name), role, static_cast<int>(layer), sizes.kv_heads, sizes.head_dim,
                          sizes.window);
  };
  const ValueId query = builder_.rope(heads.query, positions_, rope);
  const ValueId key = builder_.rope(heads.key, positions_, rope);
  const ValueId keys = builder_.state_update(state("key", graph::StateRole::key), key);
  const ValueId values = builder_.state_update(state("value", graph::StateRole::value), heads.value);
  const ValueId mixed = builder_.attention(
      query, keys, values,
      {.scale = config_.attention_scale, .window = sizes.window, .softcap = config_.attention_softcap});
  const std::int64_t width = sizes.heads * sizes.head_dim;
  return linear(builder_.reshape(mixed, {Symbol::batch, Symbol::query, width}), in_layer(layer, "attention.output"),
                config_.hidden, width, config_.output_bias);
}

ValueId Decoder::gated_mlp(ValueId x, std::size_t layer) {
  const std::int64_t hidden = config_.hidden;
  const std::int64_t width = config_.layers[layer].intermediate;
  ValueId gate = -1;
  ValueId up = -1;
  if (config_.fused_gate_up) {
    const ValueId both = linear(x, in_layer(layer, "mlp.gate_up"), 2 * width, hidden, config_.mlp_bias);
    const std::vector<ValueId> parts = builder_.split(both, {width, width});
    gate = parts[0];
    up = parts[1];
  } else {
    gate = linear(x, in_layer(layer, "mlp.gate"), width, hidden, config_.mlp_bias);
    up = linear(x, in_layer(layer, "mlp.up"), width, hidden, config_.mlp_bias);
  }
  const ValueId gated = builder_.multiply(builder_.activation(gate, config_.activation), up);
  return linear(gated, in_layer(layer, "mlp.down"), hidden, width, config_.mlp_bias);
}

graph::Graph Decoder::finish(ValueId x) {
  x = norm_by(builder_.pick_rows(x), "final_norm", config_.hidden);
  ValueId logits = linear(x, config_.tied ? "embedding" : "output", config_.vocab, config_.hidden, false);
  if (config_.final_softcap != 0.0F) logits = builder_.softcap(logits, config_.final_softcap);
  builder_.output(logits, "logits");
  return builder_.finish();
}

graph::Graph build_prenorm_decoder(const ModelConfig& config,
                                   Decoder::Heads (*project)(Decoder& decoder, ValueId x, std::size_t layer)) {
  Decoder decoder(config);
  ValueId x = decoder.embed();
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    x = decoder.add(x, decoder.attend(project(decoder, decoder.norm(x, i, "attention_norm"), i), i));
    x = decoder.add(x, decoder.gated_mlp(decoder.norm(x, i, "mlp_norm"), i));
  }
  return decoder.finish(x);
}

}  // namespace pastkv::models
