// The pieces that decoder-only transformers are made of. A family's file puts them together in its own order; what
// differs between families is there or in the ModelConfig, never a name tested here.
//
// Names of weights: "embedding", "final_norm", "output", and per layer "layers.N." + "attention_norm",
// "attention.query|key|value|qkv|output", "attention.query_norm|key_norm", "attention_post_norm", "mlp_norm",
// "mlp.gate|up|gate_up|down", "mlp_post_norm"; then ".weight" or ".bias".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "graph/builder.h"
#include "models/config.h"

namespace pastkv::models {

class Decoder {
 public:
  // Declares the inputs "input_ids" and "position_ids", both int64 [batch, query]. `config` must outlive this.
  explicit Decoder(const ModelConfig& config);

  // The projections of one layer. Each [batch, query, heads, head_dim].
  struct Heads {
    graph::ValueId query;
    graph::ValueId key;
    graph::ValueId value;
  };

  // [batch, query, hidden], scaled by embedding_scale.
  graph::ValueId embed();
  // RMS norm over the last axis, by the weight "layers.N.<name>".
  graph::ValueId norm(graph::ValueId x, std::size_t layer, std::string_view name);
  Heads project(graph::ValueId x, std::size_t layer);        // by three matrices
  Heads project_fused(graph::ValueId x, std::size_t layer);  // by one of rows [query, key, value]
  // Norms of queries and keys, over head_dim, one weight for all heads of the layer.
  Heads normalize(const Heads& heads, std::size_t layer);
  // Rope, cache (keys rotated), attention and the output matrix: [batch, query, hidden].
  graph::ValueId attend(const Heads& heads, std::size_t layer);
  // down(activation(gate(x)) * up(x)), gate and up by one matrix or two.
  graph::ValueId gated_mlp(graph::ValueId x, std::size_t layer);
  graph::ValueId add(graph::ValueId a, graph::ValueId b) { return builder_.add(a, b); }
  // Final norm and logits of the rows asked for: output "logits" [batch, rows, vocab].
  graph::Graph finish(graph::ValueId x);

 private:
  graph::ValueId weight(std::string_view module, graph::Shape shape);
  graph::ValueId linear(graph::ValueId x, const std::string& module, std::int64_t out, std::int64_t in, bool bias);
  graph::ValueId norm_by(graph::ValueId x, std::string_view module, std::int64_t width);
  graph::ValueId heads_of(graph::ValueId x, std::int64_t heads, std::int64_t head_dim);

  const ModelConfig& config_;
  graph::Builder builder_;
  graph::ValueId ids_;
  graph::ValueId positions_;
};

// The plain order, of most families: x + attention(norm(x)), then x + mlp(norm(x)). `project` gives a layer's heads
// from its normed input.
graph::Graph build_prenorm_decoder(const ModelConfig& config,
                                   Decoder::Heads (*project)(Decoder& decoder, graph::ValueId x, std::size_t layer));

}  // namespace pastkv::models
