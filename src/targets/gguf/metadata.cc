#include "targets/gguf/metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/error.h"
#include "models/architecture.h"
#include "models/rope_config.h"
#include "tensor/codec.h"

namespace pastkv::targets {
namespace {

using formats::GgufMetadata;
using models::LayerConfig;
using models::ModelConfig;
using models::RopeKind;
using models::RopeSettings;
using tensor::DType;

constexpr std::uint32_t kQuantizationVersion = 2;

[[noreturn]] void fail(const models::Model& model, std::string place, std::string reason) {
  throw Error({.file = model.name, .place = std::move(place), .reason = std::move(reason), .remedy = {}});
}

std::uint32_t u32(std::int64_t number) {
  return static_cast<std::uint32_t>(number);
}

// The type that most numbers are stored in, as general.file_type calls it.
std::uint32_t stored_file_type(const models::Model& model) {
  std::map<DType, std::int64_t> counts;
  for (const formats::TensorEntry* entry : model.weights) {
    if (entry != nullptr && entry->shape.size() > 1) counts[entry->dtype] += entry->elements();
  }
  DType most = DType::f32;
  for (const auto& [type, count] : counts) {
    if (count > counts[most]) most = type;
  }
  const auto named = gguf_type_from_name(tensor::name(most));
  return named ? file_type_number(*named).value_or(0) : 0;
}

// Describes a configuration in keys that begin with the architecture's name.
class Describing {
 public:
  Describing(const models::Model& model, GgufDescription& out)
      : model_(model), config_(model.config), form_(models::architecture_of(model.config).gguf), out_(out) {}

  void describe() {
    GgufMetadata& metadata = out_.metadata;
    metadata.set_string("general.architecture", form_.architecture);
    metadata.set_string("general.type", "model");
    metadata.set_string("general.name", model_.name);
    metadata.set_u32(key("block_count"), u32(static_cast<std::int64_t>(config_.layers.size())));
    metadata.set_u32(key("context_length"), u32(config_.max_positions));
    metadata.set_u32(key("embedding_length"), u32(config_.hidden));
    metadata.set_u32(key("vocab_size"), u32(config_.vocab));
    per_layer("feed_forward_length", &LayerConfig::intermediate);
    per_layer("attention.head_count", &LayerConfig::heads);
    per_layer("attention.head_count_kv", &LayerConfig::kv_heads);
    metadata.set_f32(key("attention.layer_norm_rms_epsilon"), config_.norm_epsilon);
    metadata.set_u32(key("attention.key_length"), u32(config_.layers[0].head_dim));
    metadata.set_u32(key("attention.value_length"), u32(config_.layers[0].head_dim));
    if (config_.attention_softcap != 0) metadata.set_f32(key("attn_logit_softcapping"), config_.attention_softcap);
    if (config_.final_softcap != 0) metadata.set_f32(key("final_logit_softcapping"), config_.final_softcap);
    check_caps();
    check_scale();
    describe_windows();
    describe_ropes();
  }

 private:
  std::string key(std::string_view name) const { return fmt::format("{}.{}", form_.architecture, name); }

  // One number where all layers agree, else one for each.
  void per_layer(std::string_view name, std::int64_t LayerConfig::* member) {
    std::vector<std::int32_t> numbers;
    numbers.reserve(config_.layers.size());
    for (const LayerConfig& layer : config_.layers) numbers.push_back(static_cast<std::int32_t>(layer.*member));
    const bool alike = std::ranges::all_of(numbers, [&](std::int32_t number) { return number == numbers.front(); });
    if (alike) {
      out_.metadata.set_u32(key(name), u32(numbers.front()));
    } else {
      out_.metadata.set_i32s(key(name), numbers);
    }
  }

  void check_caps() const {
    if (!form_.caps_by_default || (config_.attention_softcap != 0 && config_.final_softcap != 0)) return;
    fail(model_, "logit softcapping",
         fmt::format("is off, which readers of GGUF do not take for {}", form_.architecture));
  }

  // No key holds the factor on the scores: readers know it, by the architecture and its number of layers.
  void check_scale() const {
    const float known = models::gguf_attention_scale(form_, config_);
    if (std::abs(config_.attention_scale - known) <= 1e-6F * known) return;
    fail(model_, "attention scale",
         fmt::format("is {}, where readers of GGUF take {} for {} without asking", config_.attention_scale, known,
                     form_.architecture));
  }

  void describe_windows() {
    std::int64_t window = 0;
    std::vector<bool> slides;
    for (const LayerConfig& layer : config_.layers) {
      window = std::max(window, layer.window);
      slides.push_back(layer.window != 0);
    }
    if (window == 0) return;
    out_.metadata.set_u32(key("attention.sliding_window"), u32(window));
    const bool all = std::ranges::find(slides, false) == slides.end();
    if (!all) out_.metadata.set_bools(key("attention.sliding_window_pattern"), slides);
    if (form_.window_is_read) return;
    out_.notes.push_back(fmt::format(
        "llama.cpp gives {} no sliding window: beyond {} tokens it sees more than this model was trained to",
        form_.architecture, window));
  }

  void describe_ropes() {
    const RopeSettings& rope = config_.rope_settings.at(0);
    out_.metadata.set_u32(key("rope.dimension_count"), u32(rope.rotary_dim));
    out_.metadata.set_f32(key("rope.freq_base"), static_cast<float>(rope.base));
    describe_scaling(rope);
    if (config_.rope_settings.size() < 2) return;
    const RopeSettings& local = config_.rope_settings.at(1);
    if (local.kind != RopeKind::plain) fail(model_, "rope of window layers", "is scaled, which GGUF has no key for");
    out_.metadata.set_f32(key("rope.freq_base_swa"), static_cast<float>(local.base));
  }

  void describe_scaling(const RopeSettings& rope) {
    GgufMetadata& metadata = out_.metadata;
    switch (rope.kind) {
      case RopeKind::plain:
        add_divisors(rope.divisors);
        return;
      case RopeKind::linear:
        add_divisors(rope.divisors);
        metadata.set_string(key("rope.scaling.type"), "linear");
        metadata.set_f32(key("rope.scaling.factor"), static_cast<float>(rope.factor));
        return;
      case RopeKind::dynamic:
        out_.notes.push_back(fmt::format("GGUF has no key for dynamic rope scaling: the file is right up to {} tokens",
                                         rope.original_positions));
        return;
      case RopeKind::llama3:
        return add_divisors(divisors_of(rope));
      case RopeKind::yarn:
        return describe_yarn(rope);
      case RopeKind::longrope:
        metadata.set_u32(key("rope.scaling.original_context_length"), u32(rope.original_positions));
        metadata.set_f32(key("rope.scaling.attn_factor"), static_cast<float>(rope.attention_factor));
        out_.rope_tensors.push_back({"rope_factors_long.weight", rope.long_divisors});
        out_.rope_tensors.push_back({"rope_factors_short.weight", rope.divisors});
        return;
    }
  }

  void add_divisors(std::vector<float> divisors) {
    if (divisors.empty()) return;
    if (!form_.rope_divisors_are_read) {
      fail(model_, "rope frequencies",
           fmt::format("are divided one by one, which readers of GGUF do not do for {}", form_.architecture));
    }
    out_.rope_tensors.push_back({"rope_freqs.weight", std::move(divisors)});
  }

  std::vector<float> divisors_of(const RopeSettings& rope) const {
    const std::vector<float> plain = models::rope_frequencies(rope.base, rope.rotary_dim);
    std::vector<float> divisors = config_.ropes.at(0).frequencies.table.inverse_frequencies;
    for (std::size_t i = 0; i < divisors.size(); ++i) divisors[i] = plain[i] / divisors[i];
    return divisors;
  }

  void describe_yarn(const RopeSettings& rope) {
    if (!rope.truncate) fail(model_, "rope scaling yarn", "says \"truncate\": false, which GGUF has no key for");
    GgufMetadata& metadata = out_.metadata;
    metadata.set_string(key("rope.scaling.type"), "yarn");
    metadata.set_f32(key("rope.scaling.factor"), static_cast<float>(rope.factor));
    metadata.set_u32(key("rope.scaling.original_context_length"), u32(rope.original_positions));
    const RopeSettings usual;
    if (rope.beta_fast != usual.beta_fast || rope.beta_slow != usual.beta_slow) {
      metadata.set_f32(key("rope.scaling.yarn_beta_fast"), static_cast<float>(rope.beta_fast));
      metadata.set_f32(key("rope.scaling.yarn_beta_slow"), static_cast<float>(rope.beta_slow));
    }
    const double factor = rope.attention_factor / models::yarn_attention_factor(rope.factor);
    if (std::abs(factor - 1) > 1e-6) metadata.set_f32(key("rope.scaling.attn_factor"), static_cast<float>(factor));
  }

  const models::Model& model_;
  const ModelConfig& config_;
  const models::GgufForm& form_;
  GgufDescription& out_;
};

// Everything that a GGUF says of itself.
void keep_all(const formats::GgufFile& file, GgufDescription& out) {
  for (const formats::GgufPair& pair : file.pairs) out.metadata.copy(pair);
  for (const std::string_view name : {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"}) {
    const formats::TensorEntry* entry = file.tensors.find(name);
    if (entry == nullptr) continue;
    RopeTensor tensor{.name = entry->name, .numbers = std::vector<float>(static_cast<std::size_t>(entry->elements()))};
    tensor::decode_row(entry->dtype, entry->bytes, tensor.numbers);
    out.rope_tensors.push_back(std::move(tensor));
  }
}

}  // namespace

GgufDescription describe_gguf(const models::Model& model, GgufType type) {
  GgufDescription out;
  if (const auto* file = std::get_if<formats::GgufFile>(&model.source)) {
    keep_all(*file, out);
    if (type == GgufType::as_stored) return out;
  } else {
    Describing(model, out).describe();
  }
  const std::uint32_t number = file_type_number(type).value_or(0);
  out.metadata.set_u32("general.file_type", type == GgufType::as_stored ? stored_file_type(model) : number);
  out.metadata.set_u32("general.quantization_version", kQuantizationVersion);
  return out;
}

}  // namespace pastkv::targets
