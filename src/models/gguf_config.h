// Typed access to the metadata of a GGUF by the keys of its architecture, and the part that all architectures share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf.h"
#include "models/config.h"

namespace pastkv::models {

class GgufConfig {
 public:
  GgufConfig(const formats::GgufFile& file, std::string architecture);

  const formats::GgufFile& file() const { return *file_; }
  std::string key(std::string_view name) const;  // "attention.head_count" -> "llama.attention.head_count"

  // A count from 1 to `limit`. When the key is absent: `fallback`, or an Error if that is 0.
  std::int64_t size(std::string_view name, std::int64_t limit, std::int64_t fallback = 0) const;
  // One such count per layer, from one number or from an array of exactly `layers`.
  std::vector<std::int64_t> sizes(std::string_view name, std::int64_t limit, std::size_t layers,
                                  std::int64_t fallback = 0) const;
  // A finite number above 0. When the key is absent: `fallback`, or an Error if that is 0.
  double positive(std::string_view name, double fallback = 0) const;
  std::int64_t window() const;  // attention.sliding_window; 0 when absent or 0
  // A tensor of exactly `count` f32 numbers above 0; nothing when absent.
  std::optional<std::vector<float>> divisors(std::string_view tensor, std::int64_t count) const;

  [[noreturn]] void fail(std::string_view name, std::string reason, std::string remedy = {}) const;

 private:
  const formats::GgufFile* file_;
  std::string architecture_;
};

// Sizes, layers (full attention), the one rope, norm, scale and whether the output is tied.
void read_gguf_decoder(const GgufConfig& config, ModelConfig& out);

// A pattern without full layers.
inline constexpr std::int64_t kAllSlide = kMaxLayers + 1;

// Gives the layers their windows: by attention.sliding_window_pattern, one boolean per layer or the number n in "every
// n-th layer is full", and without that key by `pattern`.
void read_gguf_windows(const GgufConfig& config, std::int64_t window, std::int64_t pattern, ModelConfig& out);

}  // namespace pastkv::models
