// Small decoders with random weights, to be run by the interpreter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "graph/graph.h"
#include "graph/interpreter.h"

namespace pastkv::graph {

// Frequencies base^(-2i/rotary_dim) of the plain kind.
RopeTable plain_table(std::int64_t rotary_dim, double base);
RopeAttributes plain_rope(std::int64_t rotary_dim);
RopeAttributes dynamic_rope(std::int64_t rotary_dim, std::int64_t switch_length);
RopeAttributes two_table_rope(std::int64_t rotary_dim, std::int64_t switch_length);

struct ToyOptions {
  std::int64_t vocab = 23;
  std::int64_t hidden = 12;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 2;
  std::int64_t head_dim = 6;
  std::int64_t intermediate = 20;
  std::vector<std::int64_t> windows = {0, 0};  // one per layer
  RopeAttributes rope = plain_rope(6);
  float softcap = 0.0F;
  float final_softcap = 0.0F;
  float norm_offset = 0.0F;
  bool qk_norm = false;
  bool bias = false;
  bool tied = false;
  Activation activation = Activation::silu;
};

// Inputs input_ids and position_ids [batch, query]; output logits [batch, rows, vocab].
Graph toy_decoder(const ToyOptions& options);

// Windows, soft caps, norms with an offset, norms of queries and keys, both rope spellings, biases, a tied table.
std::vector<ToyOptions> varied_decoders();

// SmolLM2-135M: what a true model's graph looks like, for sizes and text.
ToyOptions smollm2_135m();

// The same numbers for the same name, in any order of reading.
WeightReader random_weights(float scale = 0.5F);
Tensor random_tensor(std::vector<std::int64_t> shape, std::uint32_t seed, float scale = 1.0F);

// Tokens of one or more sequences as the inputs of a toy decoder; positions go on from `past`.
std::map<std::string, Tensor> toy_inputs(const std::vector<std::vector<int>>& ids, std::int64_t past);
std::vector<int> some_ids(int count, int vocab = 23);

// Logits of every token of `ids`, run in calls of the given sizes (the last one repeats).
std::vector<float> run_in_chunks(Interpreter& interpreter, const std::vector<int>& ids,
                                 const std::vector<std::size_t>& chunks);

// Largest difference; fails the test when the lengths differ.
float largest_difference(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace pastkv::graph
