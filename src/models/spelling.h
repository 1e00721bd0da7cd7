// One model in the spelling of another file: what convert writes.
//
// A model read from GGUF has other row orders, other norms and other splits of matrices than the same model in
// transformers' files. `canonical` gives the form that graph targets (Core ML, ONNX) lower; `spell` gives the tensors
// of a Hugging Face folder or a GGUF file.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/interpreter.h"
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

// Weights as float for the interpreter. The model must outlive the reader.
graph::WeightReader weight_reader(const CanonicalModel& model);

// In which spelling the model's own file is.
Spelling spelling_of(const Model& model);

// Every weight that a file of this spelling holds for the model, in the graph's order, a tied matrix once. (A GGUF's
// tensors of rope factors are no weights.) Throws Error when the architecture has no such file. Points into `model`.
std::vector<WeightRows> spell(const Model& model, Spelling spelling);

}  // namespace pastkv::models
