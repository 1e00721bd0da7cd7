// Typed access to a config.json. A key that is null counts as absent; one of the wrong kind, or out of bounds, is an
// Error that names file and key. Nothing is allocated from a number before it was checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/hf_folder.h"
#include "models/config.h"

namespace pastkv::models {

class HfConfig {
 public:
  // The whole config.json of `folder`, which must outlive this.
  explicit HfConfig(const formats::HfFolder& folder);
  // One JSON object of some file; `tensors` are those of its model.
  HfConfig(const nlohmann::json& object, std::string file, const formats::TensorSource& tensors);

  bool has(std::string_view key) const;  // present and not null
  bool is_null(std::string_view key) const;

  std::optional<std::int64_t> find_int(std::string_view key) const;  // 64 and 64.0 alike
  std::optional<double> find_float(std::string_view key) const;      // finite
  std::optional<bool> find_bool(std::string_view key) const;
  std::optional<std::string> find_string(std::string_view key) const;
  std::optional<std::vector<std::int64_t>> find_ints(std::string_view key) const;
  std::optional<std::vector<double>> find_floats(std::string_view key) const;  // a number gives one
  std::optional<std::vector<std::string>> find_strings(std::string_view key) const;
  std::optional<HfConfig> find_object(std::string_view key) const;

  // A count from 1 to `limit`. When the key is absent: `fallback`, or an Error if that is 0.
  std::int64_t size(std::string_view key, std::int64_t limit, std::int64_t fallback = 0) const;
  // A number above 0. When the key is absent: `fallback`, or an Error if that is 0.
  double positive(std::string_view key, double fallback = 0) const;
  // Ids of one number or a list; empty when the key is absent.
  std::vector<std::int32_t> ids(std::string_view key) const;

  const formats::TensorSource& tensors() const { return *tensors_; }
  [[noreturn]] void fail(std::string_view key, std::string reason, std::string remedy = {}) const;

 private:
  const nlohmann::json* find(std::string_view key) const;
  [[noreturn]] void wrong_kind(std::string_view key, const nlohmann::json& value, std::string_view wanted) const;

  const nlohmann::json* object_;
  std::string file_;
  std::string path_;  // of the object inside the file: "text_config."
  const formats::TensorSource* tensors_;
};

// What a family's own configuration class takes for keys that a config.json may leave out.
struct HfDefaults {
  std::int64_t vocab = 0;  // 0: the key is required
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t intermediate = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // 0: as many as heads
  std::int64_t head_dim = 0;  // 0: hidden / heads
  std::int64_t max_positions = 2048;
  double norm_epsilon = 1e-6;
  double rope_theta = 10000.0;
  bool tied = false;
  std::string_view activation_key = "hidden_act";
  std::string_view activation = "silu";
};

// Sizes, layers (all alike, full attention), the one rope, norm, activation, scale, and whether the output is tied:
// the keys that most families of transformers share. `config` names its own rope by HfDefaults::rope_theta.
void read_hf_decoder(const HfConfig& config, const HfDefaults& defaults, ModelConfig& out);

// "silu", "gelu_pytorch_tanh", ...: names of transformers.activations.ACT2FN.
graph::Activation read_hf_activation(const HfConfig& config, std::string_view key, std::string_view fallback);

// Key sliding_window: `fallback` when absent, 0 (no window) when null.
std::int64_t read_hf_window(const HfConfig& config, std::int64_t fallback);

// Gives `window` to each layer that `layer_types` calls sliding_attention or, without that key, that `slides`.
void set_hf_windows(const HfConfig& config, std::int64_t window, const std::function<bool(std::size_t layer)>& slides,
                    ModelConfig& out);

}  // namespace pastkv::models
