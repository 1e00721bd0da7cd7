// Finds, for each weight of a graph, its tensor in a model's files.
#pragma once

#include <string>
#include <vector>

#include "formats/tensor_source.h"
#include "graph/graph.h"
#include "models/architecture.h"

namespace pastkv::models {

enum class Spelling : std::uint8_t { hf, gguf };  // which column of the table of names a file speaks

// A weight's name in a file; empty when such files have none.
std::string file_name(const Architecture& architecture, Spelling spelling, std::string_view graph_name);

// A tensor of the file by the name the table has for it, whatever the file's writer called it; null when absent.
const formats::TensorEntry* find_tensor(const Architecture& architecture, const formats::TensorSource& source,
                                        std::string_view table_name);

// By ValueId: the tensor of each weight, null for other values. `also_used` are tensors that the graph does not use and
// that are no fault. Throws Error with `file`: missing tensors, shapes or element types that do not fit, tensors left
// over; each time the first ten names and the count.
std::vector<const formats::TensorEntry*> bind_weights(const graph::Graph& graph, const Architecture& architecture,
                                                      Spelling spelling, const formats::TensorSource& source,
                                                      const std::vector<const formats::TensorEntry*>& also_used,
                                                      const std::string& file);

}  // namespace pastkv::models
