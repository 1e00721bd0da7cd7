// One model in the spelling of another file: what convert writes.
//
// A model read from GGUF has other row orders, other norms and other splits of matrices than the same model in
// transformers' files. `canonical` gives the form that graph targets (Core ML, ONNX) lower; `spell` gives the tensors
// of a Hugging Face folder or a GGUF file.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "models/binding.h"
#include "models/model.h"
#include "models/weight_rows.h"

namespace pastkv::models {

// The model as transformers would compute it: rope over halves, never interleaved. `weights` is by ValueId of `graph`,
// with empty `parts` for values that are no weight. Points into `model`, which must outlive it.
struct CanonicalModel {
  ModelConfig config;
  graph::Graph graph;
  std::vector<WeightRows> weights;
};
CanonicalModel canonical(const Model& model);

// Every tensor that a file of this spelling holds for the model, in the order such files have, a tied matrix once.
// Throws Error when the architecture has no such files, or a tensor cannot be spelt so without decoding it first.
std::vector<WeightRows> spell(const Model& model, Spelling spelling);

}  // namespace pastkv::models
