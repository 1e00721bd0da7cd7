// A session over any graph, run by the reference interpreter: for imported models, which are graphs of primitive
// operations, and for models of the engine when every number should be fp32 and read from top to bottom.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/session.h"
#include "graph/interpreter.h"

namespace pastkv::engine {

struct InterpretedOptions {
  std::int64_t context = 0;   // tokens; at least 1
  std::int64_t vocab = 0;     // width of the graph's logits
  bool hold_weights = true;   // false: read anew by each call, one in memory at a time
  bool round_to_f16 = false;  // as a device that computes in f16
};

// The caller's part of a model's inputs is known by name: input_ids or inputIds, position_ids, attention_mask (ones),
// causalMask (zeros, and the lowest f16 number for what is not seen), num_logits_to_keep.
class InterpretedSession final : public Session {
 public:
  // Throws Error naming an input that nothing is known to give to, or when there is no output "logits".
  InterpretedSession(graph::Graph graph, graph::WeightReader weights, InterpretedOptions options);

  std::span<const std::int32_t> ids() const override { return ids_; }
  std::int64_t context() const override { return options_.context; }
  std::int64_t vocab() const override { return options_.vocab; }
  std::uint64_t state_bytes() const override;

 private:
  std::span<const float> run(std::span<const std::int32_t> ids, std::int64_t rows) override;
  std::int64_t keep(std::int64_t length) override;
  graph::Tensor input(const graph::Value& value, std::span<const std::int32_t> ids, std::int64_t rows) const;

  graph::Graph graph_;
  InterpretedOptions options_;
  graph::Interpreter interpreter_;
  std::vector<std::int32_t> ids_;
  std::int64_t rope_length_ = 0;  // total length whose rope tables made the states
  std::vector<float> logits_;
};

}  // namespace pastkv::engine
