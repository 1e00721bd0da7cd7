#include "models/binding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"

namespace pastkv::models {
namespace {

constexpr std::string_view kLayers = "layers.";
constexpr std::size_t kNamesShown = 10;
constexpr std::size_t kLongestName = 100;

// "a, b, c and 40 more"; a file may hold names of any length.
std::string first_names(std::vector<std::string> names) {
  const std::size_t shown = std::min(names.size(), kNamesShown);
  for (std::string& name : names) {
    if (name.size() > kLongestName) name = name.substr(0, kLongestName) + "...";
  }
  std::string text =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// `pattern` with `number` in place of its `{}`.
std::string filled(std::string_view pattern, std::string_view number) {
  std::string text(pattern);
  if (const auto hole = text.find("{}"); hole != std::string::npos) text.replace(hole, 2, number);
  return text;
}

bool is_ignored(const Architecture& architecture, std::string_view name) {
  return std::ranges::any_of(architecture.ignored, [&](std::string_view pattern) {
    return pattern.ends_with('.') ? name.starts_with(pattern) : name.ends_with(pattern);
  });
}

void check_tensor(const graph::Value& weight, const formats::TensorEntry& entry, const std::string& file) {
  std::vector<std::int64_t> wanted;
  for (const graph::Dim& dim : weight.shape) wanted.push_back(dim.constant());
  std::string reason;
  if (entry.shape != wanted) {
    reason = fmt::format("has shape {}, wanted {}", shape_text(entry.shape), shape_text(wanted));
  } else if (!tensor::traits(entry.dtype).is_float) {
    reason = fmt::format("has elements of type {}, which are no weights", tensor::name(entry.dtype));
  }
  if (reason.empty()) return;
  throw Error({.file = file,
               .place = fmt::format("tensor {}", entry.name),
               .reason = std::move(reason),
               .remedy = "the weights do not belong to this configuration"});
}

// A weight's name in the graph, taken apart as the table of names has it.
struct GraphName {
  std::string pattern;  // "layers.{}.mlp.up"
  std::string number;   // "3"; empty outside the layers
  std::string ending;   // ".weight"
};

GraphName parse(std::string_view name) {
  GraphName parsed;
  const std::size_t dot = name.rfind('.');
  parsed.ending = name.substr(dot);
  name = name.substr(0, dot);
  if (name.starts_with(kLayers)) {
    const std::size_t end = name.find('.', kLayers.size());
    parsed.number = name.substr(kLayers.size(), end - kLayers.size());
    parsed.pattern = fmt::format("{}{{}}{}", kLayers, name.substr(end));
  } else {
    parsed.pattern = name;
  }
  return parsed;
}

}  // namespace

std::string file_name(const Architecture& architecture, Spelling spelling, std::string_view graph_name) {
  const GraphName parsed = parse(graph_name);
  for (const WeightName& row : architecture.weights) {
    if (row.graph != parsed.pattern) continue;
    const std::string_view pattern = spelling == Spelling::hf ? row.hf : row.gguf;
    return pattern.empty() ? std::string() : filled(pattern, parsed.number) + parsed.ending;
  }
  return {};
}

const formats::TensorEntry* find_tensor(const Architecture& architecture, const formats::TensorSource& source,
                                        std::string_view table_name) {
  if (const formats::TensorEntry* entry = source.find(table_name)) return entry;
  for (const Renaming& renaming : architecture.renamed) {
    if (!table_name.starts_with(renaming.to)) continue;
    const std::string name = std::string(renaming.from) + std::string(table_name.substr(renaming.to.size()));
    if (const formats::TensorEntry* entry = source.find(name)) return entry;
  }
  return nullptr;
}

std::vector<const formats::TensorEntry*> bind_weights(const graph::Graph& graph, const Architecture& architecture,
                                                      Spelling spelling, const formats::TensorSource& source,
                                                      const std::vector<const formats::TensorEntry*>& also_used,
                                                      const std::string& file) {
  std::vector<const formats::TensorEntry*> bound(graph.values.size(), nullptr);
  std::unordered_set<const formats::TensorEntry*> used(also_used.begin(), also_used.end());
  std::vector<std::string> missing;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const graph::Value& value = graph.values[i];
    if (value.kind != graph::ValueKind::weight) continue;
    const std::string name = file_name(architecture, spelling, value.name);
    bound[i] = find_tensor(architecture, source, name);
    if (bound[i] == nullptr) {
      missing.push_back(name);
    } else {
      used.insert(bound[i]);
    }
  }
  if (!missing.empty()) {
    throw Error({.file = file,
                 .place = {},
                 .reason = fmt::format("{} tensors are missing: {}", missing.size(), first_names(missing)),
                 .remedy = "fetch the model again, whole"});
  }
  for (std::size_t i = 0; i < bound.size(); ++i) {
    if (bound[i] != nullptr) check_tensor(graph.values[i], *bound[i], file);
  }
  std::vector<std::string> unused;
  for (const formats::TensorEntry& entry : source.tensors()) {
    if (!used.contains(&entry) && !entry.unlisted && !is_ignored(architecture, entry.name))
      unused.push_back(entry.name);
  }
  if (!unused.empty()) {
    throw Error({.file = file,
                 .place = {},
                 .reason = fmt::format("{} tensors are of no use to {}: {}", unused.size(), architecture.name,
                                       first_names(unused)),
                 .remedy = "the configuration does not describe these weights, or the model has parts that are not "
                           "supported"});
  }
  return bound;
}

}  // namespace pastkv::models
