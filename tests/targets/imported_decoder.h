// An imported model in the interpreter, held to golden logits.
#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/interpreter.h"
#include "models/golden.h"
#include "targets/imported.h"

namespace pastkv::targets {

inline graph::Tensor whole_numbers(std::vector<std::int64_t> shape, std::span<const std::int32_t> numbers) {
  return {.shape = std::move(shape), .data = {numbers.begin(), numbers.end()}};
}

// An imported decoder with its cache: gives the logits of the last `rows` tokens.
class ImportedDecoder {
 public:
  explicit ImportedDecoder(const ImportedModel& model, bool f16 = false)
      : graph_(model.graph), interpreter_(model.graph, model.weights, {.round_to_f16 = f16}) {}

  std::vector<float> extend(std::span<const std::int32_t> ids, std::int64_t rows) {
    const auto count = static_cast<std::int64_t>(ids.size());
    const std::int64_t past = interpreter_.past_length();
    std::vector<std::int32_t> positions;
    for (std::int64_t i = 0; i < count; ++i) positions.push_back(static_cast<std::int32_t>(past + i));
    const std::vector<std::int32_t> ones(static_cast<std::size_t>(past + count), 1);
    std::map<std::string, graph::Tensor> inputs = {{"input_ids", whole_numbers({1, count}, ids)},
                                                   {"attention_mask", whole_numbers({1, past + count}, ones)}};
    if (graph_.find("position_ids") >= 0 && graph_.value(graph_.find("position_ids")).kind == graph::ValueKind::input) {
      inputs.emplace("position_ids", whole_numbers({1, count}, positions));
    }
    return interpreter_.run(inputs, rows).at("logits").data;
  }
  void reset() { interpreter_.reset(); }

 private:
  const graph::Graph& graph_;
  graph::Interpreter interpreter_;
};

// The largest difference of a prefill and of steps after a shorter one.
inline double difference(const test::Golden& golden, const ImportedModel& imported, bool f16 = false) {
  ImportedDecoder decoder(imported, f16);
  const auto all = static_cast<std::int64_t>(golden.ids.size());
  const std::span<const std::int32_t> ids = golden.ids;
  double worst = 0.0;
  if (golden.from_scratch) {
    worst = test::relative_difference(decoder.extend(ids, 1), golden.row(all - 1));
    decoder.reset();
    return std::max(
        worst, test::relative_difference(decoder.extend(ids.first(static_cast<std::size_t>(golden.prefill + 1)), 1),
                                         golden.step(0)));
  }
  worst = test::relative_difference(decoder.extend(ids, all), golden.logits);
  decoder.reset();
  decoder.extend(ids.first(static_cast<std::size_t>(golden.prefill)), 1);
  for (std::int64_t i = golden.prefill; i < all; ++i) {
    const auto logits = decoder.extend(ids.subspan(static_cast<std::size_t>(i), 1), 1);
    worst = std::max(worst, test::relative_difference(logits, golden.step(i - golden.prefill)));
  }
  return worst;
}

}  // namespace pastkv::targets
