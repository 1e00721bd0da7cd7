#include "models/rope_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <string>
#include <utility>

namespace pastkv::models {

std::vector<float> rope_frequencies(double base, std::int64_t rotary_dim) {
  std::vector<float> frequencies(static_cast<std::size_t>(rotary_dim / 2));
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(rotary_dim);
    frequencies[i] = 1.0F / std::pow(static_cast<float>(base), exponent);
  }
  return frequencies;
}

void scale_llama3(std::vector<float>& frequencies, const Llama3Scaling& scaling) {
  const double longest_kept = scaling.original_positions / scaling.high_freq_factor;
  const double shortest_divided = scaling.original_positions / scaling.low_freq_factor;
  for (float& frequency : frequencies) {
    const double wavelength = 2 * std::numbers::pi / frequency;
    if (wavelength < longest_kept) continue;
    const double divided = frequency / scaling.factor;
    if (wavelength > shortest_divided) {
      frequency = static_cast<float>(divided);
      continue;
    }
    const double kept = (scaling.original_positions / wavelength - scaling.low_freq_factor) /
                        (scaling.high_freq_factor - scaling.low_freq_factor);
    frequency = static_cast<float>((1 - kept) * divided + kept * frequency);
  }
}

std::vector<float> yarn_frequencies(double base, std::int64_t rotary_dim, const YarnScaling& scaling) {
  // The channel that turns `rotations` times over the original positions.
  const auto channel = [&](double rotations) {
    return static_cast<double>(rotary_dim) * std::log(scaling.original_positions / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(base));
  };
  double low = channel(scaling.beta_fast);
  double high = channel(scaling.beta_slow);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(rotary_dim - 1));
  if (low == high) high += 0.001;  // the reference's guard
  std::vector<float> frequencies = rope_frequencies(base, rotary_dim);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double interpolated = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] =
        static_cast<float>(frequencies[i] / scaling.factor * interpolated + frequencies[i] * (1 - interpolated));
  }
  return frequencies;
}

double yarn_attention_factor(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

double longrope_attention_factor(double extension, double original_positions) {
  if (extension <= 1 || original_positions <= 1) return 1.0;
  return std::sqrt(1 + std::log(extension) / std::log(original_positions));
}

RopeSettings plain_rope(double base, std::int64_t rotary_dim) {
  return {.kind = RopeKind::plain, .rotary_dim = rotary_dim, .base = base};
}

namespace {

// Divides plain frequencies one by one; the order of operations is the reference's.
graph::RopeTable divided(const RopeSettings& rope, const std::vector<float>& divisors, double scale) {
  graph::RopeTable table{.inverse_frequencies = rope_frequencies(rope.base, rope.rotary_dim),
                         .scale = static_cast<float>(scale)};
  for (std::size_t i = 0; i < divisors.size(); ++i) table.inverse_frequencies[i] /= divisors[i];
  return table;
}

}  // namespace

graph::RopeAttributes rope_attributes(const RopeSettings& rope) {
  graph::RopeAttributes out{.rotary_dim = rope.rotary_dim};
  graph::RopeFrequencies& frequencies = out.frequencies;
  frequencies.table = divided(rope, rope.divisors, 1.0);
  const auto original = static_cast<double>(rope.original_positions);
  switch (rope.kind) {
    case RopeKind::plain:
      break;
    case RopeKind::linear:
      for (float& frequency : frequencies.table.inverse_frequencies) frequency /= static_cast<float>(rope.factor);
      break;
    case RopeKind::dynamic:
      frequencies.rule = graph::RopeRule::dynamic;
      frequencies.base = rope.base;
      frequencies.factor = rope.factor;
      frequencies.switch_length = rope.original_positions;
      break;
    case RopeKind::llama3:
      scale_llama3(frequencies.table.inverse_frequencies, {.factor = rope.factor,
                                                           .low_freq_factor = rope.low_freq_factor,
                                                           .high_freq_factor = rope.high_freq_factor,
                                                           .original_positions = original});
      break;
    case RopeKind::yarn:
      frequencies.table = {.inverse_frequencies = yarn_frequencies(rope.base, rope.rotary_dim,
                                                                   {.factor = rope.factor,
                                                                    .beta_fast = rope.beta_fast,
                                                                    .beta_slow = rope.beta_slow,
                                                                    .original_positions = original,
                                                                    .truncate = rope.truncate}),
                           .scale = static_cast<float>(rope.attention_factor)};
      break;
    case RopeKind::longrope:
      frequencies.rule = graph::RopeRule::two_tables;
      frequencies.table.scale = static_cast<float>(rope.attention_factor);
      frequencies.long_table = divided(rope, rope.long_divisors, rope.attention_factor);
      frequencies.switch_length = rope.original_positions;
      break;
  }
  return out;
}

void add_rope(RopeSettings rope, ModelConfig& out) {
  out.ropes.push_back(rope_attributes(rope));
  out.rope_settings.push_back(std::move(rope));
}

namespace {

// What the keys of a config.json say about one rope.
struct HfRope {
  const HfConfig& config;            // the model's
  std::optional<HfConfig> settings;  // rope_parameters or rope_scaling; nothing when there is neither
  std::int64_t max_positions;
  double base = 0;
  std::int64_t rotary_dim = 0;

  const HfConfig& scaling() const { return *settings; }
  std::optional<std::int64_t> original_positions() const {
    constexpr std::string_view kKey = "original_max_position_embeddings";
    if (settings && settings->has(kKey)) return settings->size(kKey, kMaxPositions);
    if (config.has(kKey)) return config.size(kKey, kMaxPositions);
    return std::nullopt;
  }
};

std::optional<HfConfig> find_settings(const HfConfig& config, std::string_view layer_type) {
  for (const std::string_view key : {"rope_parameters", "rope_scaling"}) {
    auto settings = config.find_object(key);
    if (!settings) continue;
    if (!settings->has("full_attention") && !settings->has("sliding_attention")) return settings;
    return settings->find_object(layer_type);
  }
  return std::nullopt;
}

std::int64_t read_rotary_dim(const HfRope& rope, std::int64_t head_dim) {
  for (const std::string_view key : {"partial_rotary_factor", "rotary_pct"}) {
    const bool in_settings = rope.settings && rope.settings->has(key);
    const HfConfig& holder = in_settings ? *rope.settings : rope.config;
    if (!holder.has(key)) continue;
    const double part = holder.positive(key);
    const auto rotary_dim = part <= 1 ? static_cast<std::int64_t>(static_cast<double>(head_dim) * part) : 0;
    if (rotary_dim < 2 || rotary_dim % 2 != 0) {
      holder.fail(key, fmt::format("is {}, which makes no even number of channels of {} to rotate", part, head_dim));
    }
    return rotary_dim;
  }
  if (head_dim % 2 != 0) rope.config.fail("head_dim", fmt::format("is {}, wanted an even number", head_dim));
  return head_dim;
}

std::vector<float> read_factors(const HfRope& rope, std::string_view key) {
  const auto found = rope.scaling().find_floats(key);
  if (!found) rope.scaling().fail(key, "is missing");
  const auto wanted = static_cast<std::size_t>(rope.rotary_dim / 2);
  if (found->size() != wanted) {
    rope.scaling().fail(key, fmt::format("has {} numbers, wanted {} (one for each pair of channels that rotates)",
                                         found->size(), wanted));
  }
  for (const double factor : *found) {
    if (!is_positive_float(factor)) {
      rope.scaling().fail(key, fmt::format("holds {}, wanted numbers above 0", factor));
    }
  }
  return {found->begin(), found->end()};
}

void read_llama3(const HfRope& rope, RopeSettings& out) {
  const HfConfig& scaling = rope.scaling();
  out.kind = RopeKind::llama3;
  out.factor = scaling.positive("factor");
  out.low_freq_factor = scaling.positive("low_freq_factor");
  out.high_freq_factor = scaling.positive("high_freq_factor");
  if (out.high_freq_factor <= out.low_freq_factor) {
    scaling.fail("high_freq_factor",
                 fmt::format("is {}, wanted more than low_freq_factor, {}", out.high_freq_factor, out.low_freq_factor));
  }
  out.original_positions = scaling.size("original_max_position_embeddings", kMaxPositions, rope.max_positions);
}

void read_yarn(const HfRope& rope, RopeSettings& out) {
  const HfConfig& scaling = rope.scaling();
  out.kind = RopeKind::yarn;
  out.factor = scaling.positive("factor");
  out.beta_fast = scaling.positive("beta_fast", out.beta_fast);
  out.beta_slow = scaling.positive("beta_slow", out.beta_slow);
  out.original_positions = scaling.size("original_max_position_embeddings", kMaxPositions, rope.max_positions);
  out.truncate = scaling.find_bool("truncate").value_or(true);
  out.attention_factor = yarn_attention_factor(out.factor);
  const double mscale = scaling.find_float("mscale").value_or(0);
  const double mscale_all_dim = scaling.find_float("mscale_all_dim").value_or(0);
  if (mscale != 0 && mscale_all_dim != 0) {
    out.attention_factor =
        yarn_attention_factor(out.factor, mscale) / yarn_attention_factor(out.factor, mscale_all_dim);
  }
  if (scaling.has("attention_factor")) out.attention_factor = scaling.positive("attention_factor");
}

void read_longrope(const HfRope& rope, RopeSettings& out) {
  const auto original = rope.original_positions();
  out.kind = RopeKind::longrope;
  out.original_positions = original.value_or(rope.max_positions);
  const double extension = original ? static_cast<double>(rope.max_positions) / static_cast<double>(*original)
                                    : rope.scaling().positive("factor", 1.0);
  out.attention_factor = rope.scaling().positive(
      "attention_factor", longrope_attention_factor(extension, static_cast<double>(out.original_positions)));
  out.divisors = read_factors(rope, "short_factor");
  out.long_divisors = read_factors(rope, "long_factor");
}

}  // namespace

RopeSettings read_hf_rope(const HfConfig& config, std::string_view layer_type, double default_theta,
                          std::int64_t head_dim, std::int64_t max_positions) {
  HfRope rope{.config = config, .settings = find_settings(config, layer_type), .max_positions = max_positions};
  const bool own_base = rope.settings && rope.settings->has("rope_theta");
  const HfConfig& base_holder = own_base ? *rope.settings : config;
  rope.base = base_holder.positive("rope_theta", default_theta);
  if (rope.base <= 1) base_holder.fail("rope_theta", fmt::format("is {}, wanted a number above 1", rope.base));
  rope.rotary_dim = read_rotary_dim(rope, head_dim);
  RopeSettings out = plain_rope(rope.base, rope.rotary_dim);
  if (!rope.settings) return out;

  const HfConfig& scaling = *rope.settings;
  const std::string_view key = scaling.has("rope_type") ? "rope_type" : "type";
  std::string kind = scaling.find_string(key).value_or("default");
  // Early Phi-3 files say "su" or "yarn" for what became longrope.
  if (kind == "su" || (kind == "yarn" && scaling.has("long_factor"))) kind = "longrope";
  if (kind == "default") return out;
  if (kind == "linear") {
    out.kind = RopeKind::linear;
    out.factor = scaling.positive("factor");
  } else if (kind == "dynamic") {
    if (rope.rotary_dim <= 2) {
      scaling.fail(key, fmt::format("is \"dynamic\", which is not defined for {} channels", rope.rotary_dim));
    }
    out.kind = RopeKind::dynamic;
    out.factor = scaling.positive("factor");
    out.original_positions = max_positions;
  } else if (kind == "llama3") {
    read_llama3(rope, out);
  } else if (kind == "yarn") {
    read_yarn(rope, out);
  } else if (kind == "longrope") {
    read_longrope(rope, out);
  } else {
    scaling.fail(key, fmt::format("is \"{}\", which is no kind of rope known here", kind),
                 "known are default, linear, dynamic, llama3, yarn, longrope");
  }
  return out;
}

RopeSettings read_gguf_rope(const GgufConfig& config, std::int64_t head_dim, std::int64_t max_positions,
                            double default_base) {
  const formats::GgufFile& file = config.file();
  const double base = config.positive("rope.freq_base", default_base);
  if (base <= 1) config.fail("rope.freq_base", fmt::format("is {}, wanted a number above 1", base));
  const std::int64_t rotary_dim = config.size("rope.dimension_count", head_dim, head_dim);
  if (rotary_dim % 2 != 0) {
    config.fail("rope.dimension_count", fmt::format("is {}, wanted an even number", rotary_dim));
  }
  RopeSettings out = plain_rope(base, rotary_dim);
  const std::int64_t original = config.size("rope.scaling.original_context_length", kMaxPositions, max_positions);

  const auto short_divisors = config.divisors("rope_factors_short.weight", rotary_dim / 2);
  const auto long_divisors = config.divisors("rope_factors_long.weight", rotary_dim / 2);
  if (short_divisors && long_divisors) {
    out.kind = RopeKind::longrope;
    out.divisors = *short_divisors;
    out.long_divisors = *long_divisors;
    out.attention_factor = config.positive("rope.scaling.attn_factor", 1.0);
    out.original_positions = original;
    return out;
  }
  if (auto divisors = config.divisors("rope_freqs.weight", rotary_dim / 2)) out.divisors = std::move(*divisors);
  // A factor of 0 stands for none; a factor without a type is linear.
  const bool old_key = !file.metadata.contains(config.key("rope.scaling.factor"));
  const std::string_view factor_key = old_key ? "rope.scale_linear" : "rope.scaling.factor";
  const double stored = file.find_float(config.key(factor_key)).value_or(0);
  const double factor = stored == 0 ? 1.0 : config.positive(factor_key);
  const std::string kind = file.find_string(config.key("rope.scaling.type")).value_or("linear");
  if (kind == "linear") {
    if (factor == 1.0) return out;
    out.kind = RopeKind::linear;
    out.factor = factor;
  } else if (kind == "yarn") {
    out.kind = RopeKind::yarn;
    out.divisors.clear();
    out.factor = factor;
    out.original_positions = original;
    out.beta_fast = config.positive("rope.scaling.yarn_beta_fast", out.beta_fast);
    out.beta_slow = config.positive("rope.scaling.yarn_beta_slow", out.beta_slow);
    const double scale = config.positive("rope.scaling.attn_factor", 1.0) * yarn_attention_factor(factor);
    out.attention_factor = config.positive("rope.scaling.yarn_attn_factor", scale);
  } else if (kind != "none") {
    config.fail("rope.scaling.type", fmt::format("is \"{}\"", kind),
                kind == "longrope" ? "a file of this kind needs the tensors rope_factors_long and rope_factors_short"
                                   : "known are none, linear, yarn, longrope");
  }
  return out;
}

}  // namespace pastkv::models
