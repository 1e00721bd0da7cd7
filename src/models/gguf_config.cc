#include "models/gguf_config.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/error.h"
#include "models/rope_config.h"
#include "tensor/codec.h"

namespace pastkv::models {

GgufConfig::GgufConfig(const formats::GgufFile& file, std::string architecture)
    : file_(&file), architecture_(std::move(architecture)) {}

std::string GgufConfig::key(std::string_view name) const {
  return fmt::format("{}.{}", architecture_, name);
}

void GgufConfig::fail(std::string_view name, std::string reason, std::string remedy) const {
  throw Error({.file = file_->path.string(),
               .place = fmt::format("key {}", key(name)),
               .reason = std::move(reason),
               .remedy = std::move(remedy)});
}

std::int64_t GgufConfig::size(std::string_view name, std::int64_t limit, std::int64_t fallback) const {
  const auto value = file_->find_int(key(name));
  if (!value && fallback == 0) fail(name, "is missing");
  const std::int64_t size = value.value_or(fallback);
  if (size < 1 || size > limit) fail(name, fmt::format("is {}, wanted 1 to {}", size, limit));
  return size;
}

std::vector<std::int64_t> GgufConfig::sizes(std::string_view name, std::int64_t limit, std::size_t layers,
                                            std::int64_t fallback) const {
  const auto found = file_->find_ints(key(name));
  if (!found && fallback == 0) fail(name, "is missing");
  std::vector<std::int64_t> sizes = found.value_or(std::vector<std::int64_t>{fallback});
  if (sizes.size() == 1) sizes.assign(layers, sizes[0]);
  if (sizes.size() != layers) fail(name, fmt::format("has {} entries for {} layers", sizes.size(), layers));
  for (const std::int64_t size : sizes) {
    if (size < 1 || size > limit) fail(name, fmt::format("holds {}, wanted 1 to {}", size, limit));
  }
  return sizes;
}

double GgufConfig::positive(std::string_view name, double fallback) const {
  const auto value = file_->find_float(key(name));
  if (!value && fallback == 0) fail(name, "is missing");
  const double number = value.value_or(fallback);
  if (!is_positive_float(number)) fail(name, fmt::format("is {}, wanted a number above 0", number));
  return number;
}

std::int64_t GgufConfig::window() const {
  const std::int64_t window = file_->find_int(key("attention.sliding_window")).value_or(0);
  if (window < 0 || window > kMaxPositions) {
    fail("attention.sliding_window", fmt::format("is {}, wanted 0 to {}", window, kMaxPositions));
  }
  return window;
}

std::optional<std::vector<float>> GgufConfig::divisors(std::string_view tensor, std::int64_t count) const {
  const formats::TensorEntry* entry = file_->tensors.find(tensor);
  if (entry == nullptr) return std::nullopt;
  const auto refuse = [&](std::string reason) {
    throw Error({.file = file_->path.string(),
                 .place = fmt::format("tensor {}", tensor),
                 .reason = std::move(reason),
                 .remedy = {}});
  };
  if (entry->dtype != tensor::DType::f32) refuse(fmt::format("is {}, wanted f32", tensor::name(entry->dtype)));
  if (entry->elements() != count) refuse(fmt::format("has {} numbers, wanted {}", entry->elements(), count));
  std::vector<float> numbers(static_cast<std::size_t>(count));
  tensor::decode_row(entry->dtype, entry->bytes, numbers);
  for (const float number : numbers) {
    if (!(number > 0) || !std::isfinite(number)) refuse(fmt::format("holds {}, wanted numbers above 0", number));
  }
  return numbers;
}

void read_gguf_decoder(const GgufConfig& config, ModelConfig& out) {
  const formats::GgufFile& file = config.file();
  const formats::TensorEntry* embedding = file.tensors.find("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    throw Error({.file = file.path.string(),
                 .place = "tensor token_embd.weight",
                 .reason = embedding == nullptr ? "is missing" : "is not a matrix",
                 .remedy = {}});
  }
  out.vocab = embedding->shape[0];  // the key vocab_size is optional, and without effect on any reader
  out.hidden = config.size("embedding_length", kMaxWidth);
  out.max_positions = config.size("context_length", kMaxPositions);
  const auto layers = static_cast<std::size_t>(config.size("block_count", kMaxLayers));
  const auto intermediate = config.sizes("feed_forward_length", kMaxWidth, layers);
  const auto heads = config.sizes("attention.head_count", kMaxHeads, layers);
  const auto head_dim =
      config.size("attention.key_length", kMaxHeadDim, std::max<std::int64_t>(out.hidden / heads[0], 1));
  const auto value_dim = config.size("attention.value_length", kMaxHeadDim, head_dim);
  if (value_dim != head_dim) {
    config.fail("attention.value_length", fmt::format("is {} where keys have {}", value_dim, head_dim),
                "heads whose keys and values differ in width are not supported");
  }
  out.layers.resize(layers);
  for (std::size_t i = 0; i < layers; ++i) {
    out.layers[i] = {.heads = heads[i], .kv_heads = heads[i], .head_dim = head_dim, .intermediate = intermediate[i]};
  }
  if (file.metadata.contains(config.key("attention.head_count_kv"))) {
    const auto kv_heads = config.sizes("attention.head_count_kv", kMaxHeads, layers);
    for (std::size_t i = 0; i < layers; ++i) out.layers[i].kv_heads = kv_heads[i];
  }
  add_rope(read_gguf_rope(config, head_dim, out.max_positions), out);
  out.norm_epsilon = static_cast<float>(config.positive("attention.layer_norm_rms_epsilon"));
  out.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim)));
  out.tied = file.tensors.find("output.weight") == nullptr;
}

void read_gguf_windows(const GgufConfig& config, std::int64_t window, std::int64_t pattern, ModelConfig& out) {
  constexpr std::string_view kPattern = "attention.sliding_window_pattern";
  const auto found = config.file().metadata.find(config.key(kPattern));
  if (found != config.file().metadata.end()) {
    if (const auto* slides = std::get_if<std::vector<bool>>(&found->second)) {
      if (slides->size() < out.layers.size()) {
        config.fail(kPattern, fmt::format("has {} entries for {} layers", slides->size(), out.layers.size()));
      }
      for (std::size_t i = 0; i < out.layers.size(); ++i) out.layers[i].window = (*slides)[i] ? window : 0;
      return;
    }
    pattern = config.size(kPattern, kMaxLayers);
  }
  for (std::size_t i = 0; i < out.layers.size(); ++i) {
    out.layers[i].window = (static_cast<std::int64_t>(i) + 1) % pattern != 0 ? window : 0;
  }
}

}  // namespace pastkv::models
