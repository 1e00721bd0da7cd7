#include "cli/description.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "engine/executor.h"
#include "engine/model_text.h"

namespace pastkv::cli {
namespace {

graph::Cost cost_of(const models::Model& model, const graph::Variant& variant, tensor::DType cache_type) {
  std::unordered_map<std::string_view, std::uint64_t> stored;
  for (std::size_t i = 0; i < model.weights.size(); ++i) {
    if (model.weights[i] != nullptr) stored[model.graph.values[i].name] = model.weights[i]->bytes.size();
  }
  return graph::cost(model.graph, variant, cache_type,
                     [&](const graph::Value& weight) { return stored.at(weight.name); });
}

VariantDescription describe_variant(const models::Model& model, const graph::Variant& variant,
                                    tensor::DType cache_type) {
  return {.label = graph::label(model.name, variant.role),
          .variant = variant,
          .inputs = graph::inputs(model.graph, variant, cache_type),
          .cost = cost_of(model, variant, cache_type)};
}

StateDescription describe_state(const graph::Graph& graph, const graph::State& state, std::int64_t context,
                                tensor::DType cache_type) {
  StateDescription out{.layer = state.layer, .role = state.role, .window = state.window, .shape = {}, .bytes = 0};
  const std::int64_t held = state.window == 0 ? context : std::min(context, state.window);
  for (const graph::Dim& dim : graph.value(state.value).shape) out.shape.push_back(dim.at({.context = held}));
  std::uint64_t rows = 1;
  for (std::size_t i = 0; i + 1 < out.shape.size(); ++i) rows *= static_cast<std::uint64_t>(out.shape[i]);
  out.bytes = rows * tensor::byte_size(cache_type, static_cast<std::uint64_t>(out.shape.back())).value_or(0);
  return out;
}

void describe_text(const models::Model& model, Description& out) {
  const auto tokenizer = engine::tokenizer_of(model);
  if (tokenizer) {
    out.tokenizer_size = tokenizer->size();
    out.bos_decided_by = tokenizer->bos_source();
  }
  out.eos_ids = engine::eos_ids(model, tokenizer);
  if (const auto chat = engine::chat_template_of(model)) out.chat_template = chat->origin;
}

}  // namespace

Description describe(const models::Model& model, std::int64_t context, std::int64_t prompt_tokens,
                     tensor::DType cache_type) {
  Description out;
  out.model = &model;
  out.context = context > 0 ? context : model.config.max_positions;
  out.cache_type = cache_type;
  for (const formats::TensorEntry& tensor : model.tensors().tensors()) {
    WeightType& type = out.weight_types[std::string(tensor::name(tensor.dtype))];
    ++type.tensors;
    type.bytes += tensor.bytes.size();
  }
  out.state_bytes = graph::state_bytes(model.graph, out.context, cache_type);
  for (const graph::State& state : model.graph.states) {
    out.states.push_back(describe_state(model.graph, state, out.context, cache_type));
  }
  out.variants.push_back(describe_variant(model, graph::prefill(prompt_tokens), cache_type));
  out.variants.push_back(describe_variant(model, graph::generation(prompt_tokens), cache_type));
  try {
    const engine::Engine engine(model, {.threads = 1});
    out.kernels = engine.kernels().name;
    describe_text(model, out);
  } catch (const Error& error) {
    out.cannot_run = error.what();
  }
  return out;
}

}  // namespace pastkv::cli
