// A model opened for use: what it is, its graph, and for each weight of the graph the bytes in the mapped files.
// Opening reads headers and configuration only: milliseconds, whatever the size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "formats/gguf.h"
#include "formats/hf_folder.h"
#include "graph/graph.h"
#include "graph/interpreter.h"
#include "models/config.h"

namespace pastkv::models {

struct Model {
  Model() = default;
  Model(Model&&) = default;  // `weights` points into `source`, so a model moves but is never copied
  Model& operator=(Model&&) = default;

  std::string name;  // folder name or file stem
  ModelConfig config;
  graph::Graph graph;
  std::variant<formats::HfFolder, formats::GgufFile> source;
  std::vector<const formats::TensorEntry*> weights;  // by graph ValueId; null for values that are no weight
  std::uint64_t parameters = 0;                      // elements of all weights the graph uses, a shared one once
  std::vector<std::int32_t> eos_ids;  // of config and generation_config (GGUF: eos, eot), ascending, unique
  std::vector<std::string> warnings;

  const formats::TensorSource& tensors() const;
  std::uint64_t file_bytes() const;
  const formats::TensorEntry& weight(graph::ValueId id) const { return *weights[static_cast<std::size_t>(id)]; }
};

// `path`: a Hugging Face folder, or a .gguf file (any part of a split one); found out by looking.
// Throws Error: unknown architecture (says which are known), missing, unused or misshapen tensors (names the first ten
// and the count), keys of the wrong kind.
Model open_model(const std::filesystem::path& path);

// Weights as float for the interpreter. The model must outlive the reader.
graph::WeightReader weight_reader(const Model& model);

}  // namespace pastkv::models
