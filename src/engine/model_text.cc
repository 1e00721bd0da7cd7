#include "engine/model_text.h"

#include <algorithm>
#include <variant>

namespace pastkv::engine {

std::optional<text::Tokenizer> tokenizer_of(const models::Model& model) {
  if (const auto* folder = std::get_if<formats::HfFolder>(&model.source)) {
    if (!folder->tokenizer) return std::nullopt;
    return text::Tokenizer::from_hf(*folder);
  }
  const auto& file = std::get<formats::GgufFile>(model.source);
  // Files without a vocabulary may still name a kind of it, or say "none".
  if (!file.metadata.contains("tokenizer.ggml.tokens") && !file.metadata.contains("tokenizer.huggingface.json")) {
    return std::nullopt;
  }
  return text::Tokenizer::from_gguf(file);
}

std::optional<text::ChatTemplate> chat_template_of(const models::Model& model) {
  return std::visit([](const auto& source) { return text::chat_template(source); }, model.source);
}

std::vector<std::int32_t> eos_ids(const models::Model& model, const std::optional<text::Tokenizer>& tokenizer) {
  std::vector<std::int32_t> ids = model.eos_ids;
  if (tokenizer) {
    const std::vector<std::int32_t> more = tokenizer->eos_ids();
    ids.insert(ids.end(), more.begin(), more.end());
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace pastkv::engine
