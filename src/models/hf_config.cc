#include "models/hf_config.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "models/rope_config.h"

namespace pastkv::models {
namespace {

using Json = nlohmann::json;

constexpr double kExactIntegers = 9007199254740992.0;  // 2^53
constexpr std::size_t kLongestName = 256;              // strings here are names of kinds

// A value of the file in an error, short whatever it is.
std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > 40) text = text.substr(0, 37) + "...";
  return text;
}

std::optional<std::int64_t> as_int(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
    return static_cast<std::int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const auto number = value.get<double>();
  if (!(std::abs(number) < kExactIntegers) || number != std::floor(number)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

std::optional<double> as_float(const Json& value) {
  if (!value.is_number()) return std::nullopt;
  const auto number = value.get<double>();
  if (!std::isfinite(number)) return std::nullopt;
  return number;
}

template <class T, class Convert>
std::optional<std::vector<T>> as_list(const Json& value, Convert convert) {
  if (!value.is_array()) return std::nullopt;
  std::vector<T> list;
  for (const Json& element : value) {
    std::optional<T> converted = convert(element);
    if (!converted) return std::nullopt;
    list.push_back(std::move(*converted));
  }
  return list;
}

}  // namespace

HfConfig::HfConfig(const formats::HfFolder& folder)
    : HfConfig(folder.config, (folder.path / "config.json").string(), folder.tensors) {}

HfConfig::HfConfig(const Json& object, std::string file, const formats::TensorSource& tensors)
    : object_(&object), file_(std::move(file)), tensors_(&tensors) {}

const Json* HfConfig::find(std::string_view key) const {
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

bool HfConfig::has(std::string_view key) const {
  return find(key) != nullptr;
}

bool HfConfig::is_null(std::string_view key) const {
  const auto found = object_->find(key);
  return found != object_->end() && found->is_null();
}

void HfConfig::fail(std::string_view key, std::string reason, std::string remedy) const {
  throw Error({.file = file_,
               .place = fmt::format("key {}{}", path_, key),
               .reason = std::move(reason),
               .remedy = std::move(remedy)});
}

void HfConfig::wrong_kind(std::string_view key, const Json& value, std::string_view wanted) const {
  fail(key, fmt::format("is {}, wanted {}", shown(value), wanted));
}

std::optional<std::int64_t> HfConfig::find_int(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = as_int(*value);
  if (!number) wrong_kind(key, *value, "a whole number");
  return number;
}

std::optional<double> HfConfig::find_float(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = as_float(*value);
  if (!number) wrong_kind(key, *value, "a number");
  return number;
}

std::optional<bool> HfConfig::find_bool(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) wrong_kind(key, *value, "true or false");
  return value->get<bool>();
}

std::optional<std::string> HfConfig::find_string(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string() || value->get_ref<const std::string&>().size() > kLongestName) {
    wrong_kind(key, *value, "a short string");
  }
  return value->get<std::string>();
}

std::optional<std::vector<std::int64_t>> HfConfig::find_ints(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  auto list = as_list<std::int64_t>(*value, as_int);
  if (!list) wrong_kind(key, *value, "a list of whole numbers");
  return list;
}

std::optional<std::vector<double>> HfConfig::find_floats(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) return std::vector{*find_float(key)};
  auto list = as_list<double>(*value, as_float);
  if (!list) wrong_kind(key, *value, "a list of numbers");
  return list;
}

std::optional<std::vector<std::string>> HfConfig::find_strings(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  auto list = as_list<std::string>(*value, [](const Json& element) {
    const bool fits = element.is_string() && element.get_ref<const std::string&>().size() <= kLongestName;
    return fits ? std::optional(element.get<std::string>()) : std::nullopt;
  });
  if (!list) wrong_kind(key, *value, "a list of short strings");
  return list;
}

std::optional<HfConfig> HfConfig::find_object(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) wrong_kind(key, *value, "an object");
  HfConfig inner(*value, file_, *tensors_);
  inner.path_ = fmt::format("{}{}.", path_, key);
  return inner;
}

std::int64_t HfConfig::size(std::string_view key, std::int64_t limit, std::int64_t fallback) const {
  const auto value = find_int(key);
  if (!value && fallback == 0) fail(key, "is missing");
  const std::int64_t size = value.value_or(fallback);
  if (size < 1 || size > limit) fail(key, fmt::format("is {}, wanted 1 to {}", size, limit));
  return size;
}

double HfConfig::positive(std::string_view key, double fallback) const {
  const auto value = find_float(key);
  if (!value && fallback == 0) fail(key, "is missing");
  const double number = value.value_or(fallback);
  if (!is_positive_float(number)) fail(key, fmt::format("is {}, wanted a number above 0", number));
  return number;
}

std::vector<std::int32_t> HfConfig::ids(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return {};
  std::vector<std::int32_t> ids;
  const auto add = [&](const Json& element) {
    const auto id = as_int(element);
    if (!id || *id < 0 || *id >= kMaxVocab) wrong_kind(key, *value, "a token id or a list of them");
    ids.push_back(static_cast<std::int32_t>(*id));
  };
  if (!value->is_array()) {
    add(*value);
  } else {
    for (const Json& element : *value) add(element);
  }
  if (ids.empty()) wrong_kind(key, *value, "a token id or a list of them");
  return ids;
}

graph::Activation read_hf_activation(const HfConfig& config, std::string_view key, std::string_view fallback) {
  const std::string name = config.find_string(key).value_or(std::string(fallback));
  if (name == "silu" || name == "swish") return graph::Activation::silu;
  if (name == "gelu") return graph::Activation::gelu_erf;
  if (name == "gelu_pytorch_tanh" || name == "gelu_new") return graph::Activation::gelu_tanh;
  if (name == "relu") return graph::Activation::relu;
  config.fail(key, fmt::format("is \"{}\", which is no activation known here", name),
              "known are silu, swish, gelu, gelu_pytorch_tanh, gelu_new, relu");
}

void read_hf_decoder(const HfConfig& config, const HfDefaults& defaults, ModelConfig& out) {
  out.vocab = config.size("vocab_size", kMaxVocab, defaults.vocab);
  out.hidden = config.size("hidden_size", kMaxWidth, defaults.hidden);
  out.max_positions = config.size("max_position_embeddings", kMaxPositions, defaults.max_positions);
  LayerConfig layer;
  layer.intermediate = config.size("intermediate_size", kMaxWidth, defaults.intermediate);
  layer.heads = config.size("num_attention_heads", kMaxHeads, defaults.heads);
  layer.kv_heads = config.size("num_key_value_heads", kMaxHeads, defaults.kv_heads ? defaults.kv_heads : layer.heads);
  layer.head_dim =
      config.size("head_dim", kMaxHeadDim,
                  defaults.head_dim ? defaults.head_dim : std::max<std::int64_t>(out.hidden / layer.heads, 1));
  out.layers.assign(static_cast<std::size_t>(config.size("num_hidden_layers", kMaxLayers, defaults.layers)), layer);
  add_rope(read_hf_rope(config, "full_attention", defaults.rope_theta, layer.head_dim, out.max_positions), out);
  out.norm_epsilon = static_cast<float>(config.positive("rms_norm_eps", defaults.norm_epsilon));
  out.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(layer.head_dim)));
  out.activation = read_hf_activation(config, defaults.activation_key, defaults.activation);
  out.tied = config.find_bool("tie_word_embeddings").value_or(defaults.tied);
}

std::int64_t read_hf_window(const HfConfig& config, std::int64_t fallback) {
  if (config.is_null("sliding_window")) return 0;
  const std::int64_t window = config.find_int("sliding_window").value_or(fallback);
  if (window < 0 || window > kMaxPositions) {
    config.fail("sliding_window", fmt::format("is {}, wanted 1 to {}", window, kMaxPositions));
  }
  return window;
}

void set_hf_windows(const HfConfig& config, std::int64_t window, const std::function<bool(std::size_t layer)>& slides,
                    ModelConfig& out) {
  const auto types = config.find_strings("layer_types");
  if (types && types->size() != out.layers.size()) {
    config.fail("layer_types", fmt::format("has {} entries for {} layers", types->size(), out.layers.size()));
  }
  for (std::size_t i = 0; i < out.layers.size(); ++i) {
    bool sliding = slides(i);
    if (types) {
      sliding = (*types)[i] == "sliding_attention";
      if (!sliding && (*types)[i] != "full_attention") {
        config.fail("layer_types", fmt::format("calls layer {} \"{}\"", i, (*types)[i]),
                    "known are full_attention and sliding_attention");
      }
    }
    out.layers[i].window = sliding ? window : 0;
  }
}

}  // namespace pastkv::models
