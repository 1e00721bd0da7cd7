#include "bench/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "bench/model_hash.h"
#include "bench/prompt.h"
#include "bench/statistics.h"
#include "engine/model_text.h"
#include "engine/sampler.h"
#include "graph/cost.h"
#include "models/model.h"
#include "text/tokenizer.h"

namespace pastkv::bench {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t nanoseconds_since(Clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count();
}

double milliseconds(std::int64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

// True when most bytes of matrices are of types that the kernels multiply as 8-bit integers.
bool mostly_int8(const models::Model& model, const engine::KernelSet& kernels) {
  double int8 = 0;
  double all = 0;
  for (const graph::Node& node : model.graph.nodes) {
    if (node.op != graph::Op::linear) continue;
    const formats::TensorEntry* weight = model.weights[static_cast<std::size_t>(node.inputs[1])];
    if (weight == nullptr) continue;
    const auto bytes = static_cast<double>(weight->bytes.size());
    all += bytes;
    if (kernels.preparation(weight->dtype) == engine::Preparation::q8) int8 += bytes;
  }
  return int8 * 2 > all;
}

graph::Cost cost_of(const models::Model& model, const graph::Variant& variant, tensor::DType cache_type) {
  std::unordered_map<std::string_view, const formats::TensorEntry*> stored;
  for (std::size_t i = 0; i < model.graph.values.size(); ++i) {
    if (i < model.weights.size() && model.weights[i] != nullptr) stored[model.graph.values[i].name] = model.weights[i];
  }
  return graph::cost(model.graph, variant, cache_type, [&](const graph::Value& weight) -> std::uint64_t {
    const auto found = stored.find(weight.name);
    return found == stored.end() ? 0 : found->second->bytes.size();
  });
}

Measured begin_variant(const models::Model& model, graph::Variant variant, const graph::Variant& typical,
                       tensor::DType cache_type) {
  Measured out;
  out.label = graph::label(model.name, variant.role);
  out.inputs = graph::inputs(model.graph, variant, cache_type);
  out.variant = std::move(variant);
  const graph::Cost cost = cost_of(model, typical, cache_type);
  out.flops = cost.flops;
  out.bytes = cost.weight_bytes + cost.state_bytes;
  return out;
}

// One prefill and the generation after it, from an empty cache; each call timed alone, sampling outside.
struct Round {
  std::int64_t prefill_ns = 0;
  std::vector<std::int64_t> token_ns;
};

Round run_round(engine::Session& session, const std::vector<std::int32_t>& prompt, std::int64_t generate) {
  Round round;
  session.truncate(0);
  auto begin = Clock::now();
  std::span<const float> logits = session.forward(prompt);
  round.prefill_ns = nanoseconds_since(begin);
  engine::Sampler greedy({});
  for (std::int64_t i = 0; i < generate; ++i) {
    const std::int32_t id = greedy.sample(logits, {}, session.vocab());
    begin = Clock::now();
    logits = session.forward({&id, 1});
    round.token_ns.push_back(nanoseconds_since(begin));
  }
  return round;
}

// The cold calls are the first round's; the warm-up rounds and the first are not counted.
void run_rounds(engine::Session& session, const std::vector<std::int32_t>& prompt, const MeasureOptions& options,
                Measured& prefill, Measured* generation, const std::function<void(std::string_view)>& progress) {
  for (int i = 0; i < 1 + options.warmup + options.repeat; ++i) {
    const int counted = i - 1 - options.warmup;
    if (progress) {
      progress(counted < 0 ? fmt::format("warm-up {}/{}", i + 1, 1 + options.warmup)
                           : fmt::format("round {}/{}", counted + 1, options.repeat));
    }
    const Round round = run_round(session, prompt, options.generate_tokens);
    if (i == 0) {
      prefill.cold_ms = milliseconds(round.prefill_ns);
      if (generation != nullptr) generation->cold_ms = milliseconds(round.token_ns.front());
    }
    if (counted < 0) continue;
    const auto seconds = [](std::int64_t ns) { return static_cast<double>(ns) / 1e9; };
    prefill.samples_ns.push_back(round.prefill_ns);
    prefill.tokens_per_second.push_back(rate(std::ssize(prompt), seconds(round.prefill_ns)).value_or(0));
    if (generation == nullptr) continue;
    std::int64_t total = 0;
    for (const std::int64_t ns : round.token_ns) total += ns;
    generation->samples_ns.insert(generation->samples_ns.end(), round.token_ns.begin(), round.token_ns.end());
    generation->tokens_per_second.push_back(rate(std::ssize(round.token_ns), seconds(total)).value_or(0));
  }
}

}  // namespace

ModelMeasurement measure(const std::filesystem::path& path, const MeasureOptions& options,
                         const std::function<void(std::string_view)>& progress) {
  if (progress) progress("loading");
  const auto begin = Clock::now();
  const models::Model model = models::open_model(path);
  const engine::Engine engine(model, options.engine);
  engine::EngineSession session(engine, {.context = options.prompt_tokens + options.generate_tokens,
                                         .cache_type = options.cache_type,
                                         .chunk = options.chunk});
  ModelMeasurement out;
  out.load_ms = milliseconds(nanoseconds_since(begin));
  out.name = model.name;
  out.architecture = model.config.architecture;
  out.parameters = model.parameters;
  out.file_bytes = model.file_bytes();
  out.kernels = engine.kernels().name;
  out.int8_arithmetic = mostly_int8(model, engine.kernels());
  out.cache_type = options.cache_type;
  out.threads = engine.threads();
  out.state_bytes = session.state_bytes();
  out.warnings = model.warnings;

  const std::optional<text::Tokenizer> tokenizer = engine::tokenizer_of(model);
  if (!tokenizer) out.warnings.push_back("the model has no tokenizer: the bytes of the prompt stand for its ids");
  const std::vector<std::int32_t> prompt =
      prompt_ids(tokenizer, options.prompt, options.prompt_tokens, session.vocab());
  const graph::Variant prefill = graph::prefill(options.prompt_tokens);
  out.variants.push_back(begin_variant(model, prefill, prefill, options.cache_type));
  if (options.generate_tokens > 0) {
    const std::int64_t middle = options.prompt_tokens + (options.generate_tokens - 1) / 2;
    out.variants.push_back(
        begin_variant(model, graph::generation(options.prompt_tokens), graph::generation(middle), options.cache_type));
  }
  run_rounds(session, prompt, options, out.variants[0], out.variants.size() > 1 ? &out.variants[1] : nullptr, progress);
  for (Measured& variant : out.variants) variant.memory = process_memory();
  out.hash = model_hash(model);
  return out;
}

}  // namespace pastkv::bench
