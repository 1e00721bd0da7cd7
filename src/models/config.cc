#include "models/config.h"

#include <fmt/format.h>

#include "base/error.h"

namespace pastkv::models {

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
}

}  // namespace pastkv::models
