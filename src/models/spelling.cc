#include "models/spelling.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "models/architecture.h"

namespace pastkv::models {
namespace {

using formats::TensorEntry;
using graph::ValueId;

// Weights that some files hold as one matrix and others as several: rows of the first are those of the others, one
// after the other.
constexpr std::string_view kJoined = "mlp.gate_up";
constexpr std::array<std::string_view, 2> kParts = {"mlp.gate", "mlp.up"};

// "layers.3.attention.query.weight" taken apart: which module of which layer. Layer -1 outside the layers.
struct GraphWeight {
  std::int64_t layer = -1;
  std::string_view module;  // "attention.query"
  std::string_view ending;  // ".weight"
};

GraphWeight parse(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  GraphWeight weight;
  if (name.starts_with(kLayers)) {
    name.remove_prefix(kLayers.size());
    weight.layer = 0;
    while (name.front() != '.') {
      weight.layer = weight.layer * 10 + (name.front() - '0');
      name.remove_prefix(1);
    }
    name.remove_prefix(1);
  }
  const std::size_t dot = name.rfind('.');
  weight.module = name.substr(0, dot);
  weight.ending = name.substr(dot);
  return weight;
}

std::string joined_name(const GraphWeight& weight, std::string_view module) {
  return fmt::format("layers.{}.{}{}", weight.layer, module, weight.ending);
}

WeightRows as_stored(std::string name, const TensorEntry& entry) {
  WeightRows rows;
  rows.name = std::move(name);
  rows.shape = entry.shape;
  rows.parts = {&entry};
  return rows;
}

// Whether the weight's rows are those of query or key heads, which rotate.
bool rotates(const GraphWeight& weight) {
  if (weight.module == "attention.qkv") throw std::logic_error("rotating rows of one matrix for query, key and value");
  return weight.module == "attention.query" || weight.module == "attention.key";
}

void set_order(const ModelConfig& config, const GraphWeight& weight, RowOrder order, WeightRows& rows) {
  const LayerConfig& layer = config.layers.at(static_cast<std::size_t>(weight.layer));
  rows.order = order;
  rows.head_dim = layer.head_dim;
  rows.rotary_dim = config.ropes.at(static_cast<std::size_t>(layer.rope)).rotary_dim;
}

// Weights of norms, by ValueId.
std::vector<bool> find_norms(const graph::Graph& graph) {
  std::vector<bool> found(graph.values.size(), false);
  for (const graph::Node& node : graph.nodes) {
    if (node.op != graph::Op::rms_norm && node.op != graph::Op::layer_norm) continue;
    found.at(static_cast<std::size_t>(node.inputs.at(1))) = true;
  }
  return found;
}

// Writes the weights of a model in the other spelling than its own.
class Respelling {
 public:
  Respelling(const Model& model, Spelling to)
      : model_(model), architecture_(architecture_of(model.config)), to_(to), norms_(find_norms(model.graph)) {}

  std::vector<WeightRows> all() {
    for (std::size_t i = 0; i < model_.weights.size(); ++i) {
      if (model_.weights[i] != nullptr) add(static_cast<ValueId>(i));
    }
    return std::move(out_);
  }

 private:
  void add(ValueId id) {
    const std::string& graph_name = model_.graph.value(id).name;
    const GraphWeight weight = parse(graph_name);
    std::string name = file_name(architecture_, to_, graph_name);
    if (weight.layer >= 0 && name.empty()) {
      if (weight.module == kJoined) return add_split(id, weight);
      if (std::ranges::find(kParts, weight.module) != kParts.end()) return add_joined(id, weight);
    }
    if (name.empty()) {
      throw Error({.file = model_.name,
                   .place = fmt::format("weight {}", graph_name),
                   .reason = fmt::format("has no name in {} files of {}", to_ == Spelling::hf ? "Hugging Face" : "GGUF",
                                         architecture_.name),
                   .remedy = {}});
    }
    WeightRows rows = as_stored(std::move(name), model_.weight(id));
    const GgufForm& form = architecture_.gguf;
    if (norms_[static_cast<std::size_t>(id)]) {
      rows.added = to_ == Spelling::gguf ? form.added_to_norms : -form.added_to_norms;
    }
    if (form.rope_in_pairs && rotates(weight)) {
      const bool pairs = to_ == Spelling::gguf;
      set_order(model_.config, weight, pairs ? RowOrder::pairs_from_halves : RowOrder::halves_from_pairs, rows);
    }
    out_.push_back(std::move(rows));
  }

  void add_split(ValueId id, const GraphWeight& weight) {
    const auto count = static_cast<std::int64_t>(kParts.size());
    for (std::int64_t i = 0; i < count; ++i) {
      const std::string part = joined_name(weight, kParts.at(static_cast<std::size_t>(i)));
      WeightRows rows = as_stored(file_name(architecture_, to_, part), model_.weight(id));
      rows.row_count = rows.shape.front() / count;
      rows.first_row = i * rows.row_count;
      rows.shape.front() = rows.row_count;
      out_.push_back(std::move(rows));
    }
  }

  void add_joined(ValueId id, const GraphWeight& weight) {
    if (weight.module != kParts.front()) return;  // written with the first
    WeightRows rows = as_stored(file_name(architecture_, to_, joined_name(weight, kJoined)), model_.weight(id));
    for (std::size_t i = 1; i < kParts.size(); ++i) {
      const ValueId other = model_.graph.find(joined_name(weight, kParts.at(i)));
      rows.parts.push_back(&model_.weight(other));
      rows.shape.front() += model_.weight(other).shape.front();
    }
    out_.push_back(std::move(rows));
  }

  const Model& model_;
  const Architecture& architecture_;
  Spelling to_;
  std::vector<bool> norms_;
  std::vector<WeightRows> out_;
};

}  // namespace

Spelling spelling_of(const Model& model) {
  return std::holds_alternative<formats::HfFolder>(model.source) ? Spelling::hf : Spelling::gguf;
}

CanonicalModel canonical(const Model& model) {
  CanonicalModel out{.config = model.config, .graph = {}, .weights = {}};
  for (graph::RopeAttributes& rope : out.config.ropes) rope.interleaved = false;
  out.graph = architecture_of(model.config).build(out.config);
  out.weights.resize(out.graph.values.size());
  for (std::size_t i = 0; i < out.graph.values.size(); ++i) {
    const graph::Value& value = out.graph.values[i];
    if (value.kind != graph::ValueKind::weight) continue;
    out.weights[i] = as_stored(value.name, model.weight(model.graph.find(value.name)));
    const GraphWeight weight = parse(value.name);
    if (weight.layer < 0) continue;
    const LayerConfig& layer = model.config.layers.at(static_cast<std::size_t>(weight.layer));
    if (model.config.ropes.at(static_cast<std::size_t>(layer.rope)).interleaved && rotates(weight)) {
      set_order(model.config, weight, RowOrder::halves_from_pairs, out.weights[i]);
    }
  }
  return out;
}

graph::WeightReader weight_reader(const CanonicalModel& model) {
  std::map<std::string, const WeightRows*, std::less<>> by_name;
  for (const WeightRows& weight : model.weights) {
    if (!weight.parts.empty()) by_name.emplace(weight.name, &weight);
  }
  return [by_name = std::move(by_name)](const graph::Value& value) {
    const WeightRows& weight = *by_name.at(value.name);
    std::vector<float> numbers(static_cast<std::size_t>(weight.elements()));
    const auto width = static_cast<std::size_t>(weight.width());
    for (std::int64_t row = 0; row < weight.rows(); ++row) {
      weight.decode_row(row, std::span(numbers).subspan(static_cast<std::size_t>(row) * width, width));
    }
    return numbers;
  };
}

std::vector<WeightRows> spell(const Model& model, Spelling spelling) {
  if (spelling != spelling_of(model)) return Respelling(model, spelling).all();
  std::vector<WeightRows> out;
  for (std::size_t i = 0; i < model.weights.size(); ++i) {
    if (model.weights[i] == nullptr) continue;
    out.push_back(
        as_stored(file_name(architecture_of(model.config), spelling, model.graph.values[i].name), *model.weights[i]));
  }
  return out;
}

}  // namespace pastkv::models
