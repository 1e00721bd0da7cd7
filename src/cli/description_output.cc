#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <tuple>

#include "cli/description.h"
#include "cli/table.h"
#include "cli/terminal.h"

namespace pastkv::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string kind_text(std::int64_t window) {
  return window == 0 ? "full" : fmt::format("window {}", window);
}

// One number when all layers have the same, else the smallest and the largest.
template <typename Get>
std::string over_layers(const std::vector<models::LayerConfig>& layers, Get get) {
  std::set<std::int64_t> numbers;
  for (const models::LayerConfig& layer : layers) numbers.insert(get(layer));
  if (numbers.empty()) return "none";
  if (numbers.size() == 1) return fmt::format("{}", *numbers.begin());
  return fmt::format("{} to {}", *numbers.begin(), *numbers.rbegin());
}

std::string weights_text(const Description& d) {
  std::vector<std::pair<std::string, WeightType>> types(d.weight_types.begin(), d.weight_types.end());
  std::sort(types.begin(), types.end(), [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  std::vector<std::string> parts;
  for (const auto& [name, type] : types) {
    parts.push_back(fmt::format("{} {} in {} tensor{}", name, bytes_text(static_cast<double>(type.bytes)), type.tensors,
                                type.tensors == 1 ? "" : "s"));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string tokenizer_text(const Description& d) {
  if (!d.tokenizer_size) return "none";
  std::string text = fmt::format("{} ids", *d.tokenizer_size);
  if (!d.eos_ids.empty()) text += fmt::format(", an answer ends at {}", fmt::join(d.eos_ids, " or "));
  return text;
}

void add_layers(const models::ModelConfig& config, Table& table) {
  const auto& layers = config.layers;
  table.add({"layers", fmt::format("{}, width {}, MLP {}", layers.size(), config.hidden,
                                   over_layers(layers, [](const auto& l) { return l.intermediate; }))});
  table.add({"heads", fmt::format("{}, key and value {}, of width {}",
                                  over_layers(layers, [](const auto& l) { return l.heads; }),
                                  over_layers(layers, [](const auto& l) { return l.kv_heads; }),
                                  over_layers(layers, [](const auto& l) { return l.head_dim; }))});
}

std::string summary_text(const Description& d) {
  Table table({{""}, {""}});
  table.add({"format", d.form});
  if (d.config != nullptr) table.add({"architecture", d.config->architecture});
  for (const auto& [key, value] : d.facts) table.add({key, value});
  table.add({"parameters", count_text(static_cast<double>(d.parameters))});
  table.add({"file size", bytes_text(static_cast<double>(d.file_bytes))});
  table.add({"weights", weights_text(d)});
  if (d.max_positions > 0) table.add({"context", fmt::format("{} tokens at most", d.max_positions)});
  if (d.config != nullptr) add_layers(*d.config, table);
  const bool tied = d.config != nullptr && d.config->tied;
  table.add({"vocabulary", fmt::format("{}{}", d.vocab, tied ? ", output tied to the embedding" : "")});
  if (d.cannot_run.empty()) {
    table.add({"tokenizer", tokenizer_text(d)});
    table.add({"chat template", d.chat_template.empty() ? "none" : d.chat_template});
    table.add({"runs", fmt::format("yes, with {}", d.runs_with)});
  } else {
    table.add({"runs", fmt::format("no: {}", d.cannot_run)});
  }
  return table.text(2);
}

// States that differ by nothing but the layer share a line.
std::string states_text(const Description& d) {
  struct Group {
    StateDescription state;
    std::vector<int> layers;
  };
  std::vector<Group> groups;
  for (const StateDescription& state : d.states) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& g) {
      return g.state.role == state.role && g.state.window == state.window && g.state.shape == state.shape;
    });
    if (same == groups.end()) {
      groups.push_back({state, {state.layer}});
    } else {
      same->layers.push_back(state.layer);
    }
  }
  Table table({{"layers"}, {"role"}, {"kind"}, {"shape"}, {"each", Align::right}, {"together", Align::right}});
  for (const Group& group : groups) {
    const auto each = static_cast<double>(group.state.bytes);
    table.add({ranges_text(group.layers), std::string(graph::name(group.state.role)), kind_text(group.state.window),
               shape_text(group.state.shape), bytes_text(each),
               bytes_text(each * static_cast<double>(group.layers.size()))});
  }
  return fmt::format("states at a context of {} tokens, {}: {}\n", d.context, tensor::name(d.cache_type),
                     bytes_text(static_cast<double>(d.state_bytes))) +
         table.text(2);
}

// "past_key_values.7.key" is 7 and "past_key_values.#.key".
std::pair<std::string, std::optional<int>> without_number(const std::string& name) {
  const auto digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  const auto begin = std::find_if(name.begin(), name.end(), digit);
  if (begin == name.end()) return {name, std::nullopt};
  const auto end = std::find_if_not(begin, name.end(), digit);
  if (end - begin > 6) return {name, std::nullopt};
  return {fmt::format("{}#{}", std::string(name.begin(), begin), std::string(end, name.end())),
          std::stoi(std::string(begin, end))};
}

std::string variant_text(const VariantDescription& v) {
  struct Group {
    std::string name;
    const graph::TensorInfo* info;
    std::vector<int> numbers;
  };
  std::vector<Group> groups;
  for (const graph::TensorInfo& input : v.inputs) {
    const auto [name, number] = without_number(input.name);
    const auto same = std::find_if(groups.begin(), groups.end(), [&, &key = name](const Group& g) {
      return g.name == key && g.info->dtype == input.dtype && g.info->shape == input.shape;
    });
    if (same == groups.end()) {
      groups.push_back({name, &input, {}});
      if (number) groups.back().numbers.push_back(*number);
    } else if (number) {
      same->numbers.push_back(*number);
    }
  }
  Table table({{""}, {""}, {""}, {""}});
  for (const Group& group : groups) {
    table.add({group.numbers.size() == 1 ? group.info->name : group.name, std::string(tensor::name(group.info->dtype)),
               shape_text(group.info->shape),
               group.numbers.size() > 1 ? fmt::format("# = {}", ranges_text(group.numbers)) : std::string()});
  }
  return fmt::format("{}: query {}, past {}; {} FLOP, {} to read\n", v.label, v.variant.sizes.query,
                     v.variant.sizes.past, count_text(v.cost.flops),
                     bytes_text(v.cost.weight_bytes + v.cost.state_bytes)) +
         table.text(2);
}

Json variant_json(const VariantDescription& v) {
  Json inputs = Json::array();
  for (const graph::TensorInfo& input : v.inputs) {
    inputs.push_back({{"name", input.name}, {"dtype", tensor::name(input.dtype)}, {"shape", input.shape}});
  }
  return {{"label", v.label},
          {"role", graph::name(v.variant.role)},
          {"batch", v.variant.sizes.batch},
          {"query_length", v.variant.sizes.query},
          {"past_length", v.variant.sizes.past},
          {"inputs", std::move(inputs)},
          {"flops", v.cost.flops},
          {"weight_bytes", v.cost.weight_bytes},
          {"state_bytes", v.cost.state_bytes}};
}

Json states_json(const Description& d) {
  Json out = Json::array();
  for (const StateDescription& state : d.states) {
    out.push_back({{"layer", state.layer},
                   {"role", graph::name(state.role)},
                   {"kind", state.window == 0 ? "full" : "window"},
                   {"window", state.window == 0 ? Json(nullptr) : Json(state.window)},
                   {"shape", state.shape},
                   {"bytes", state.bytes}});
  }
  return out;
}

}  // namespace

std::string ranges_text(const std::vector<int>& numbers) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    parts.push_back(end - i == 1 ? fmt::format("{}", numbers[i]) : fmt::format("{}-{}", numbers[i], numbers[end - 1]));
    i = end;
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string to_text(const Description& d) {
  std::string out = fmt::format("{}\n{}\n{}", d.name, summary_text(d), states_text(d));
  for (const VariantDescription& variant : d.variants) out += fmt::format("\n{}", variant_text(variant));
  return out;
}

Json to_json(const Description& d) {
  Json types = Json::object();
  for (const auto& [name, type] : d.weight_types) types[name] = {{"tensors", type.tensors}, {"bytes", type.bytes}};
  Json out;
  out["name"] = d.name;
  out["format"] = d.form;
  if (d.config != nullptr) out["architecture"] = d.config->architecture;
  out["parameters"] = d.parameters;
  out["file_bytes"] = d.file_bytes;
  out["weight_types"] = std::move(types);
  out["max_positions"] = d.max_positions;
  if (d.config != nullptr) {
    out["layers"] = d.config->layers.size();
    out["hidden"] = d.config->hidden;
  }
  out["vocab"] = d.vocab;
  out["facts"] = Json::object();
  for (const auto& [key, value] : d.facts) out["facts"][key] = value;
  out["tokenizer_size"] = d.tokenizer_size ? Json(*d.tokenizer_size) : Json(nullptr);
  out["bos_decided_by"] = d.bos_decided_by;
  out["chat_template"] = d.chat_template.empty() ? Json(nullptr) : Json(d.chat_template);
  out["eos_ids"] = d.eos_ids;
  out["context"] = d.context;
  out["cache_type"] = tensor::name(d.cache_type);
  out["state_bytes"] = d.state_bytes;
  out["states"] = states_json(d);
  out["variants"] = Json::array();
  for (const VariantDescription& variant : d.variants) out["variants"].push_back(variant_json(variant));
  out["warnings"] = d.warnings;
  out["runs"] = d.cannot_run.empty();
  out["reason"] = d.cannot_run.empty() ? Json(nullptr) : Json(d.cannot_run);
  return out;
}

}  // namespace pastkv::cli
