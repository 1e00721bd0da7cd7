// Rope tables from configurations, of every kind that transformers' modeling_rope_utils.py (4.57) computes: default,
// linear, dynamic, llama3, yarn, longrope.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "models/config.h"
#include "models/gguf_config.h"
#include "models/hf_config.h"

namespace pastkv::models {

// [rotary_dim / 2]: base^(-2i / rotary_dim), in fp32 as the reference computes it.
std::vector<float> rope_frequencies(double base, std::int64_t rotary_dim);

struct Llama3Scaling {
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  double original_positions = 8192;
};
// Long waves are divided by the factor, short ones kept, those between blended.
void scale_llama3(std::vector<float>& frequencies, const Llama3Scaling& scaling);

struct YarnScaling {
  double factor = 1;
  double beta_fast = 32;
  double beta_slow = 1;
  double original_positions = 2048;
  bool truncate = true;  // whole channels as the ends of the ramp
};
std::vector<float> yarn_frequencies(double base, std::int64_t rotary_dim, const YarnScaling& scaling);
double yarn_attention_factor(double factor, double mscale = 1);

// The longrope factor on cos and sin.
double longrope_attention_factor(double extension, double original_positions);

// The rope of a config.json, from `rope_parameters` (flat, or one object per kind of layer, then that of `layer_type`)
// or from `rope_scaling` and `rope_theta`. `default_theta` stands in when no theta is given.
RopeSettings read_hf_rope(const HfConfig& config, std::string_view layer_type, double default_theta,
                          std::int64_t head_dim, std::int64_t max_positions);

// A rope of `base` without any scaling, over `rotary_dim` channels.
RopeSettings plain_rope(double base, std::int64_t rotary_dim);

// The rope of a GGUF: metadata, and the tensors rope_freqs and rope_factors_long and _short where they exist.
RopeSettings read_gguf_rope(const GgufConfig& config, std::int64_t head_dim, std::int64_t max_positions,
                            double default_base = 10000.0);

// The tables that settings stand for.
graph::RopeAttributes rope_attributes(const RopeSettings& rope);

// Adds settings and tables to a configuration.
void add_rope(RopeSettings rope, ModelConfig& out);

}  // namespace pastkv::models
