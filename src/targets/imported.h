// A model read back from a target's file: a graph again, that the interpreter runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/interpreter.h"

namespace pastkv::targets {

// Weights of one type, as the file stores them.
struct StoredWeights {
  std::string type;  // "f16"; "int4 in blocks of 32"
  int bits = 0;      // of one number: 16, 4
  std::int64_t tensors = 0;
  std::uint64_t bytes = 0;
};

struct ImportedModel {
  std::string name;    // folder name or file stem
  std::string format;  // "onnx", "coreml"
  // Caches are states, whatever the file calls them. Inputs keep the names of the file: input_ids, position_ids,
  // attention_mask; inputIds, causalMask. Output "logits" [batch, rows, vocab].
  graph::Graph graph;
  graph::WeightReader weights;  // reads from the mapped files, which it keeps
  std::int64_t vocab = 0;
  std::int64_t max_positions = 0;  // 0: the file does not say
  std::vector<std::int32_t> eos_ids;
  std::filesystem::path tokenizer_folder;  // holds tokenizer.json; empty when there is none
  std::uint64_t file_bytes = 0;
  std::uint64_t parameters = 0;
  std::vector<StoredWeights> stored;                       // the largest first
  std::vector<std::pair<std::string, std::string>> facts;  // what else the file says of itself: {"opset", "18"}
};

}  // namespace pastkv::targets
