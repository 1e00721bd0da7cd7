#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "models/families.h"

namespace pastkv::models {
namespace {

constexpr std::array<const Architecture*, 8> kArchitectures = {&kLlama,  &kMistral, &kQwen2, &kQwen3,
                                                               &kGemma2, &kGemma3,  &kPhi3,  &kOpenElm};

using Names = std::span<const std::string_view> Architecture::*;

const Architecture* find_in(Names names, std::string_view wanted) {
  for (const Architecture* architecture : kArchitectures) {
    const auto known = architecture->*names;
    if (std::ranges::find(known, wanted) != known.end()) return architecture;
  }
  return nullptr;
}

std::string list(Names names) {
  std::string text;
  for (const Architecture* architecture : kArchitectures) {
    for (const std::string_view name : architecture->*names) {
      if (!text.empty()) text += ", ";
      text += name;
    }
  }
  return text;
}

}  // namespace

std::span<const Architecture* const> architectures() {
  return kArchitectures;
}

const Architecture& architecture_of(const ModelConfig& config) {
  const auto named = [&](const Architecture* architecture) { return architecture->name == config.architecture; };
  const auto found = std::ranges::find_if(kArchitectures, named);
  if (found == kArchitectures.end()) throw std::logic_error("no architecture is called " + config.architecture);
  return **found;
}

float gguf_attention_scale(const GgufForm& form, const ModelConfig& config) {
  const LayerConfig& layer = config.layers.at(0);
  const bool wide = form.layers_of_wide_scale != 0 && config.layers.size() == form.layers_of_wide_scale;
  const auto width = static_cast<double>(wide ? config.hidden / layer.heads : layer.head_dim);
  return static_cast<float>(1.0 / std::sqrt(std::max(width, 1.0)));
}

const Architecture* find_by_hf(std::string_view model_type) {
  return find_in(&Architecture::hf_model_types, model_type);
}

const Architecture* find_by_gguf(std::string_view name) {
  return find_in(&Architecture::gguf_names, name);
}

std::string known_hf_types() {
  return list(&Architecture::hf_model_types);
}

std::string known_gguf_names() {
  return list(&Architecture::gguf_names);
}

}  // namespace pastkv::models
