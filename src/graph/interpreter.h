// The reference interpreter: every operation, fp32, plain loops, read from top to bottom. It is slow and it is right.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace pastkv::graph {

struct Tensor {
  std::vector<std::int64_t> shape;
  std::vector<float> data;  // row-major; integers are held exactly up to 2^24
};

// Gives a weight's numbers, row-major, in the shape the graph declares.
using WeightReader = std::function<std::vector<float>(const Value& weight)>;

class Interpreter {
 public:
  struct Options {
    bool round_to_f16 = false;  // round every result and every state to f16, as a device that computes in f16 would
  };

  Interpreter(Graph graph, WeightReader weights, Options options);

  // Runs the graph once on top of the states that earlier runs left. `rows` logits rows are made.
  // Inputs by name; outputs by name. Throws Error when an input is missing or has another shape, or when the states are
  // stale because a rope table changes with the total length (rope_changes): then reset() and run every token again.
  std::map<std::string, Tensor> run(const std::map<std::string, Tensor>& inputs, std::int64_t rows);

  std::int64_t past_length() const { return past_; }
  void reset();                        // empties every state
  void truncate(std::int64_t length);  // keeps the first `length` positions

 private:
  Graph graph_;
  WeightReader weights_;
  Options options_;
  std::int64_t past_ = 0;
  std::map<ValueId, Tensor> states_;
  std::map<ValueId, Tensor> weight_cache_;
};

}  // namespace pastkv::graph
