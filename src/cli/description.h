// What `inspect` says about a model, gathered first and printed as text or JSON after.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/cost.h"
#include "graph/variant.h"
#include "models/model.h"
#include "targets/imported.h"
#include "tensor/dtype.h"

namespace pastkv::cli {

struct WeightType {
  std::int64_t tensors = 0;
  std::uint64_t bytes = 0;
};

struct StateDescription {
  int layer = 0;
  graph::StateRole role = graph::StateRole::key;
  std::int64_t window = 0;          // 0: full
  std::vector<std::int64_t> shape;  // at the context; a window layer holds its window
  std::uint64_t bytes = 0;
};

struct VariantDescription {
  std::string label;
  graph::Variant variant;
  std::vector<graph::TensorInfo> inputs;
  graph::Cost cost;
};

struct Description {
  std::string name;
  std::string form;                             // "hf", "gguf", "onnx", "coreml"
  const models::ModelConfig* config = nullptr;  // null for an imported model, which is a graph and nothing else
  std::uint64_t parameters = 0;
  std::uint64_t file_bytes = 0;
  std::int64_t max_positions = 0;  // 0: unknown
  std::int64_t vocab = 0;
  std::vector<std::string> warnings;
  std::vector<std::pair<std::string, std::string>> facts;  // of an imported model: {"opset", "18"}
  std::int64_t context = 0;
  tensor::DType cache_type = tensor::DType::f16;
  std::map<std::string, WeightType> weight_types;
  std::vector<StateDescription> states;
  std::uint64_t state_bytes = 0;
  std::vector<VariantDescription> variants;  // prefill, generation
  std::optional<std::int32_t> tokenizer_size;
  std::string bos_decided_by;
  std::string chat_template;  // where it comes from; empty when there is none
  std::vector<std::int32_t> eos_ids;
  std::string runs_with;
  std::string cannot_run;  // why; empty when it can
};

// Both point into the model. `context` 0: what the model was trained for. `prompt_tokens` is the query length of the
// prefill variant and the past length of the generation variant.
Description describe(const models::Model& model, std::int64_t context, std::int64_t prompt_tokens,
                     tensor::DType cache_type);
Description describe(const targets::ImportedModel& model, std::int64_t context, std::int64_t prompt_tokens,
                     tensor::DType cache_type);

std::string to_text(const Description& description);
nlohmann::ordered_json to_json(const Description& description);

// Numbers in ascending order as ranges: "0-4, 6, 8-9".
std::string ranges_text(const std::vector<int>& numbers);

}  // namespace pastkv::cli
