#include "models/hf_config_write.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "models/rope_config.h"

namespace pastkv::models {
namespace {

// f32 numbers, in as few digits as tell them apart: 1e-05 and not 9.999999747378752e-06.
double shortest(float number) {
  return std::stod(fmt::format("{}", number));
}

std::vector<double> shortest(const std::vector<float>& numbers) {
  std::vector<double> out;
  out.reserve(numbers.size());
  for (const float number : numbers) out.push_back(shortest(number));
  return out;
}

std::int64_t one_for_all(const ModelConfig& config, std::string_view what, std::int64_t LayerConfig::* member) {
  const std::int64_t first = config.layers.at(0).*member;
  for (const LayerConfig& layer : config.layers) {
    if (layer.*member != first) fail_hf(what, "differs between layers, which config.json has no key for");
  }
  return first;
}

bool same_frequencies(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, [](float x, float y) { return std::abs(x - y) <= 1e-5F * std::abs(y); });
}

// Divisors made by Llama 3's rule, found by trying what its published models have; nothing when they are others.
std::optional<RopeSettings> as_llama3(const RopeSettings& rope, const graph::RopeAttributes& tables,
                                      std::int64_t max_positions) {
  RopeSettings tried = rope;
  tried.kind = RopeKind::llama3;
  tried.divisors.clear();
  tried.factor = std::round(*std::ranges::max_element(rope.divisors) * 1000.0) / 1000.0;
  tried.low_freq_factor = 1;
  tried.high_freq_factor = 4;
  for (tried.original_positions = 16; tried.original_positions <= max_positions; tried.original_positions *= 2) {
    const auto made = rope_attributes(tried).frequencies.table.inverse_frequencies;
    if (same_frequencies(made, tables.frequencies.table.inverse_frequencies)) return tried;
  }
  return std::nullopt;
}

HfJson llama3_json(const RopeSettings& rope) {
  return {{"rope_type", "llama3"},
          {"factor", rope.factor},
          {"low_freq_factor", rope.low_freq_factor},
          {"high_freq_factor", rope.high_freq_factor},
          {"original_max_position_embeddings", rope.original_positions}};
}

// Any table at all: longrope whose two tables are one.
HfJson divided_json(const RopeSettings& rope, const graph::RopeAttributes& tables, std::int64_t max_positions) {
  const std::vector<float> plain = rope_frequencies(rope.base, rope.rotary_dim);
  std::vector<double> divisors;
  divisors.reserve(plain.size());
  for (std::size_t i = 0; i < plain.size(); ++i) {
    divisors.push_back(static_cast<double>(plain[i]) / tables.frequencies.table.inverse_frequencies[i]);
  }
  return {{"rope_type", "longrope"},
          {"factor", 1.0},
          {"attention_factor", shortest(tables.frequencies.table.scale)},
          {"original_max_position_embeddings", max_positions},
          {"short_factor", divisors},
          {"long_factor", divisors}};
}

HfJson yarn_json(const RopeSettings& rope) {
  HfJson out = {{"rope_type", "yarn"},
                {"factor", rope.factor},
                {"original_max_position_embeddings", rope.original_positions},
                {"beta_fast", rope.beta_fast},
                {"beta_slow", rope.beta_slow}};
  if (std::abs(rope.attention_factor - yarn_attention_factor(rope.factor)) > 1e-6 * rope.attention_factor) {
    out["attention_factor"] = rope.attention_factor;
  }
  if (!rope.truncate) out["truncate"] = false;
  return out;
}

}  // namespace

void fail_hf(std::string_view what, std::string reason) {
  throw Error({.file = "config.json", .place = std::string(what), .reason = std::move(reason), .remedy = {}});
}

std::string_view hf_activation(graph::Activation activation) {
  switch (activation) {
    case graph::Activation::silu:
      return "silu";
    case graph::Activation::gelu_tanh:
      return "gelu_pytorch_tanh";
    case graph::Activation::gelu_erf:
      return "gelu";
    case graph::Activation::relu:
      return "relu";
  }
  return {};
}

HfJson hf_rope_scaling(const RopeSettings& rope, const graph::RopeAttributes& tables, std::int64_t max_positions) {
  switch (rope.kind) {
    case RopeKind::plain:
      if (rope.divisors.empty()) return nullptr;
      if (const auto llama3 = as_llama3(rope, tables, max_positions)) return llama3_json(*llama3);
      return divided_json(rope, tables, max_positions);
    case RopeKind::linear:
      if (!rope.divisors.empty()) return divided_json(rope, tables, max_positions);
      return {{"rope_type", "linear"}, {"factor", rope.factor}};
    case RopeKind::dynamic:
      return {{"rope_type", "dynamic"}, {"factor", rope.factor}};
    case RopeKind::llama3:
      return llama3_json(rope);
    case RopeKind::yarn:
      return yarn_json(rope);
    case RopeKind::longrope:
      return {{"rope_type", "longrope"},
              {"factor", static_cast<double>(max_positions) / static_cast<double>(rope.original_positions)},
              {"attention_factor", rope.attention_factor},
              {"original_max_position_embeddings", rope.original_positions},
              {"short_factor", shortest(rope.divisors)},
              {"long_factor", shortest(rope.long_divisors)}};
  }
  return nullptr;
}

void write_hf_decoder(const ModelConfig& config, const HfNames& names, HfJson& out) {
  out["architectures"] = {names.class_name};
  out["model_type"] = names.model_type;
  out["vocab_size"] = config.vocab;
  out["hidden_size"] = config.hidden;
  out["intermediate_size"] = one_for_all(config, "width of the MLP", &LayerConfig::intermediate);
  out["num_hidden_layers"] = config.layers.size();
  out["num_attention_heads"] = one_for_all(config, "number of heads", &LayerConfig::heads);
  out["num_key_value_heads"] = one_for_all(config, "number of key/value heads", &LayerConfig::kv_heads);
  out["head_dim"] = config.layers[0].head_dim;
  out["max_position_embeddings"] = config.max_positions;
  out[names.activation_key] = hf_activation(config.activation);
  out["rms_norm_eps"] = shortest(config.norm_epsilon);
  out["rope_theta"] = config.rope_settings.at(0).base;
  out["rope_scaling"] = hf_rope_scaling(config.rope_settings[0], config.ropes.at(0), config.max_positions);
  const std::int64_t head_dim = config.layers[0].head_dim;
  if (config.ropes[0].rotary_dim != head_dim) {
    out["partial_rotary_factor"] = static_cast<double>(config.ropes[0].rotary_dim) / static_cast<double>(head_dim);
  }
  out["tie_word_embeddings"] = config.tied;
}

void write_hf_windows(const ModelConfig& config, HfJson& out) {
  std::int64_t window = 0;
  HfJson kinds = HfJson::array();
  for (const LayerConfig& layer : config.layers) {
    window = std::max(window, layer.window);
    kinds.push_back(layer.window != 0 ? "sliding_attention" : "full_attention");
  }
  out["sliding_window"] = window != 0 ? HfJson(window) : HfJson(nullptr);
  if (window != 0) out["layer_types"] = kinds;
}

}  // namespace pastkv::models
