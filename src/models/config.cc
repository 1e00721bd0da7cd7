#include "models/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace pastkv::models {

namespace {

bool is_usable(const graph::RopeTable& table) {
  return is_positive_float(table.scale) &&
         std::ranges::all_of(table.inverse_frequencies, [](float f) { return std::isfinite(f) && f >= 0; });
}

}  // namespace

bool is_positive_float(double number) {
  const auto rounded = static_cast<float>(number);
  return rounded > 0 && std::isfinite(rounded);
}

void check_config(const ModelConfig& config, const std::string& file) {
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const LayerConfig& layer = config.layers[i];
    if (layer.heads % layer.kv_heads != 0) {
      throw Error({.file = file,
                   .place = fmt::format("layer {}", i),
                   .reason = fmt::format("{} attention heads do not divide into groups of {} key/value heads",
                                         layer.heads, layer.kv_heads),
                   .remedy = {}});
    }
  }
  for (const graph::RopeAttributes& rope : config.ropes) {
    const graph::RopeFrequencies& frequencies = rope.frequencies;
    const bool two = frequencies.rule == graph::RopeRule::two_tables;
    if (is_usable(frequencies.table) && (!two || is_usable(frequencies.long_table))) continue;
    throw Error({.file = file,
                 .place = "rope settings",
                 .reason = "give frequencies that are no finite numbers",
                 .remedy = "theta, factors and attention factor must be of a sensible size"});
  }
}

}  // namespace pastkv::models
