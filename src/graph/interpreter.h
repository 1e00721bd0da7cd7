// The reference interpreter: every operation, fp32, plain loops (reference.h). It is slow and it is right.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace pastkv::graph {

struct Tensor {
  std::vector<std::int64_t> shape;
  std::vector<float> data;  // row-major; integers are held exactly up to 2^24, booleans as 0 and 1
};

// Gives a weight's numbers, row-major, in the shape the graph declares. Called when a weight is needed: once, or
// each time (Options::hold_weights).
using WeightReader = std::function<std::vector<float>(const Value& weight)>;

class Interpreter {
 public:
  struct Options {
    bool round_to_f16 = false;  // round results (islands apart) and states to f16, as a device that computes in f16
    bool hold_weights = true;   // false: each weight is read whenever a node needs it, and let go after that node
  };

  // Throws std::logic_error when the graph has faults (verify.h).
  Interpreter(Graph graph, WeightReader weights, Options options);

  // Runs the graph once on top of the states that earlier runs left. `rows` logits rows are made.
  // Inputs by name; outputs by name. Batch and query length are read off the inputs' shapes. Throws Error when an input
  // is missing, unknown or of another shape, when an index is outside its table, when a weight has another size, or
  // when the states are stale because a rope table changes with the total length (rope_changes): then reset() and run
  // every token again. After an error the states are as they were before.
  std::map<std::string, Tensor> run(const std::map<std::string, Tensor>& inputs, std::int64_t rows);

  // Of a graph whose states are buffers the caller says how many tokens came before: by an input of past + query.
  std::int64_t past_length() const { return past_; }
  void reset();                        // empties every state
  void truncate(std::int64_t length);  // keeps the first `length` positions; throws Error when there are fewer

 private:
  const Tensor& fixed(ValueId id);  // a weight or a constant

  Graph graph_;
  WeightReader weights_;
  Options options_;
  std::int64_t past_ = 0;
  std::int64_t rope_length_ = 0;  // total length of the last call: its rope tables made the states
  // [batch, heads, past, head_dim]: of a window too, everything is kept. A buffer's as it is.
  std::map<ValueId, std::shared_ptr<const Tensor>> states_;
  std::map<ValueId, Tensor> fixed_;  // constants, and the weights read so far
};

}  // namespace pastkv::graph
