#include "cli/description.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "bench/opened_model.h"
#include "engine/executor.h"
#include "engine/interpreted_session.h"
#include "engine/model_text.h"
#include "formats/hf_folder.h"

namespace pastkv::cli {
namespace {

constexpr std::int64_t kUnknownContext = 2048;

using StoredBytes = std::function<std::uint64_t(const graph::Value& weight)>;

StateDescription describe_state(const graph::Graph& graph, const graph::State& state, std::int64_t context,
                                tensor::DType cache_type) {
  StateDescription out{.layer = state.layer, .role = state.role, .window = state.window, .shape = {}, .bytes = 0};
  const std::int64_t held = graph::held_positions(state.window, context, engine::SessionOptions{}.chunk);
  for (const graph::Dim& dim : graph.value(state.value).shape) out.shape.push_back(dim.at({.context = held}));
  std::uint64_t rows = 1;
  for (std::size_t i = 0; i + 1 < out.shape.size(); ++i) rows *= static_cast<std::uint64_t>(out.shape[i]);
  out.bytes = rows * tensor::byte_size(cache_type, static_cast<std::uint64_t>(out.shape.back())).value_or(0);
  return out;
}

// What follows from the graph alone. `out` knows its name, context and cache type.
void describe_graph(const graph::Graph& graph, std::int64_t prompt_tokens, const StoredBytes& stored,
                    Description& out) {
  out.state_bytes = graph::state_bytes(graph, out.context, engine::SessionOptions{}.chunk, out.cache_type);
  for (const graph::State& state : graph.states) {
    out.states.push_back(describe_state(graph, state, out.context, out.cache_type));
  }
  for (const graph::Variant& variant : {graph::prefill(prompt_tokens), graph::generation(prompt_tokens)}) {
    out.variants.push_back({.label = graph::label(out.name, variant.role),
                            .variant = variant,
                            .inputs = graph::inputs(graph, variant, out.cache_type),
                            .cost = graph::cost(graph, variant, out.cache_type, stored)});
  }
}

void describe_tokenizer(const std::optional<text::Tokenizer>& tokenizer, Description& out) {
  if (!tokenizer) return;
  out.tokenizer_size = tokenizer->size();
  out.bos_decided_by = tokenizer->bos_source();
}

void describe_text(const models::Model& model, Description& out) {
  const auto tokenizer = engine::tokenizer_of(model);
  describe_tokenizer(tokenizer, out);
  out.eos_ids = engine::eos_ids(model, tokenizer);
  if (const auto chat = engine::chat_template_of(model)) out.chat_template = chat->origin;
}

void describe_text(const targets::ImportedModel& model, Description& out) {
  out.eos_ids = model.eos_ids;
  if (model.tokenizer_folder.empty()) return;
  const formats::HfFolder texts = formats::read_hf_texts(model.tokenizer_folder);
  if (texts.tokenizer) describe_tokenizer(text::Tokenizer::from_hf(texts), out);
  if (const auto chat = text::chat_template(texts)) out.chat_template = chat->origin;
}

}  // namespace

Description describe(const models::Model& model, std::int64_t context, std::int64_t prompt_tokens,
                     tensor::DType cache_type) {
  Description out;
  out.name = model.name;
  out.form = bench::name(std::holds_alternative<formats::GgufFile>(model.source) ? bench::ModelForm::gguf
                                                                                 : bench::ModelForm::hf);
  out.config = &model.config;
  out.parameters = model.parameters;
  out.file_bytes = model.file_bytes();
  out.max_positions = model.config.max_positions;
  out.vocab = model.config.vocab;
  out.warnings = model.warnings;
  out.context = context > 0 ? context : model.config.max_positions;
  out.cache_type = cache_type;
  for (const formats::TensorEntry& tensor : model.tensors().tensors()) {
    WeightType& type = out.weight_types[std::string(tensor::name(tensor.dtype))];
    ++type.tensors;
    type.bytes += tensor.bytes.size();
  }
  std::unordered_map<std::string_view, std::uint64_t> stored;
  for (std::size_t i = 0; i < model.weights.size(); ++i) {
    if (model.weights[i] != nullptr) stored[model.graph.values[i].name] = model.weights[i]->bytes.size();
  }
  describe_graph(model.graph, prompt_tokens, [&](const graph::Value& weight) { return stored.at(weight.name); }, out);
  try {
    const engine::Engine engine(model, {.threads = 1});
    out.runs_with = fmt::format("{} kernels", engine.kernels().name);
    describe_text(model, out);
  } catch (const Error& error) {
    out.cannot_run = error.what();
  }
  return out;
}

Description describe(const targets::ImportedModel& model, std::int64_t context, std::int64_t prompt_tokens,
                     tensor::DType cache_type) {
  Description out;
  out.name = model.name;
  out.form = model.format;
  out.parameters = model.parameters;
  out.file_bytes = model.file_bytes;
  out.max_positions = model.max_positions;
  out.vocab = model.vocab;
  out.facts = model.facts;
  out.context = context > 0 ? context : model.max_positions > 0 ? model.max_positions : kUnknownContext;
  out.cache_type = cache_type;
  std::uint64_t bytes = 0;
  for (const targets::StoredWeights& stored : model.stored) {
    out.weight_types[stored.type] = {.tensors = stored.tensors, .bytes = stored.bytes};
    bytes += stored.bytes;
  }
  // A file's weights are not the graph's one for one (blocks and their scales): each counts by its share.
  const double each = static_cast<double>(bytes) / static_cast<double>(std::max<std::uint64_t>(model.parameters, 1));
  describe_graph(
      model.graph, prompt_tokens,
      [&](const graph::Value& weight) {
        double elements = each;
        for (const graph::Dim& dim : weight.shape) elements *= static_cast<double>(dim.constant());
        return static_cast<std::uint64_t>(elements);
      },
      out);
  try {
    const engine::InterpretedSession session(model.graph, model.weights, {.context = 1, .vocab = model.vocab});
    out.runs_with = "the reference interpreter";
    describe_text(model, out);
  } catch (const Error& error) {
    out.cannot_run = error.what();
  }
  return out;
}

}  // namespace pastkv::cli
