// A model's configuration in one neutral form, whatever file it came from. Per-layer numbers are per layer, always.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace pastkv::models {

struct LayerConfig {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t intermediate = 0;  // width of the MLP
  std::int64_t window = 0;        // 0: full attention
  int rope = 0;                   // index into ModelConfig::ropes
};

enum class RopeKind : std::uint8_t { plain, linear, dynamic, llama3, yarn, longrope };

// A rope as configurations put it: what a writer needs to put it again.
struct RopeSettings {
  RopeKind kind = RopeKind::plain;
  std::int64_t rotary_dim = 0;  // channels of a head that rotate
  double base = 10000;
  double factor = 1;                    // linear, dynamic, llama3, yarn
  std::int64_t original_positions = 0;  // llama3, yarn; longrope, dynamic: the total length above which it changes
  double low_freq_factor = 1;           // llama3
  double high_freq_factor = 4;
  double beta_fast = 32;  // yarn
  double beta_slow = 1;
  bool truncate = true;
  double attention_factor = 1;       // on cos and sin: yarn, longrope
  std::vector<float> divisors;       // of the frequencies, [rotary_dim / 2]; longrope: the short ones; may be empty
  std::vector<float> long_divisors;  // longrope
};

struct ModelConfig {
  std::string architecture;  // registry name: "llama"
  std::int64_t vocab = 0;    // rows of the embedding
  std::int64_t hidden = 0;
  std::int64_t max_positions = 0;  // trained context
  std::vector<LayerConfig> layers;
  std::vector<graph::RopeAttributes> ropes;
  std::vector<RopeSettings> rope_settings;  // of which `ropes` were made
  float norm_epsilon = 1e-5F;
  float norm_weight_offset = 0.0F;  // 1 when the file stores w for a norm by (1 + w)
  float attention_scale = 0.0F;
  float attention_softcap = 0.0F;
  float final_softcap = 0.0F;
  float embedding_scale = 1.0F;
  graph::Activation activation = graph::Activation::silu;
  bool attention_bias = false;  // q, k, v
  bool output_bias = false;     // o
  bool mlp_bias = false;
  bool fused_gate_up = false;  // the MLP's first matrix is [gate, up] in one
  bool tied = false;           // logits by the embedding's own matrix
};

// Largest sizes a configuration may name: far above any model, and small enough that nothing derived from them
// overflows or exhausts memory before the weights were compared with it.
inline constexpr std::int64_t kMaxLayers = 2048;
inline constexpr std::int64_t kMaxVocab = std::int64_t{1} << 24;
inline constexpr std::int64_t kMaxWidth = std::int64_t{1} << 22;
inline constexpr std::int64_t kMaxHeads = 1 << 14;
inline constexpr std::int64_t kMaxHeadDim = 1 << 14;
inline constexpr std::int64_t kMaxPositions = std::int64_t{1} << 31;

// Above 0, and neither 0 nor infinite when it is rounded to fp32.
bool is_positive_float(double number);

// Throws Error naming `file` when the heads of a layer do not divide into groups, or the settings of a rope make
// frequencies that are no numbers.
void check_config(const ModelConfig& config, const std::string& file);

}  // namespace pastkv::models
