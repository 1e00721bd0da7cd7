#include <algorithm>
#include <array>

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
