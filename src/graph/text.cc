#include "graph/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace pastkv::graph {
namespace {

constexpr std::size_t kNumbersShown = 6;

// "f32 [batch, query, 576]"
std::string type_text(const Value& value) {
  return fmt::format("{} {}", tensor::name(value.dtype), text(value.shape));
}

template <typename Number>
std::string list_text(const std::vector<Number>& numbers) {
  std::string out;
  for (std::size_t i = 0; i < std::min(numbers.size(), kNumbersShown); ++i) {
    out += fmt::format("{}{:.6}", i == 0 ? "" : ", ", static_cast<double>(numbers[i]));
  }
  if (numbers.size() > kNumbersShown) out += fmt::format(", ... {} in all", numbers.size());
  return "[" + out + "]";
}

std::string table_text(const RopeTable& table) {
  std::string out = list_text(table.inverse_frequencies);
  if (table.scale != 1.0F) out += fmt::format(" scaled by {:.6}", table.scale);
  return out;
}

std::string rope_text(const RopeAttributes& rope) {
  const RopeFrequencies& frequencies = rope.frequencies;
  std::string out = fmt::format("  rotary_dim={}", rope.rotary_dim);
  if (rope.interleaved) out += " interleaved";
  out += " frequencies=" + table_text(frequencies.table);
  if (frequencies.rule == RopeRule::two_tables) {
    out += fmt::format(" above_{}={}", frequencies.switch_length, table_text(frequencies.long_table));
  }
  if (frequencies.rule == RopeRule::dynamic) {
    out += fmt::format(" above_{}=dynamic(base={}, factor={})", frequencies.switch_length, frequencies.base,
                       frequencies.factor);
  }
  return out;
}

std::string axes_text(const std::vector<int>& axes) {
  return fmt::format("[{}]", fmt::join(axes, ", "));
}

// Attributes as they stand behind the operation: empty, or with two leading blanks. What is off is not written.
struct AttributesText {
  std::string operator()(std::monostate) const { return ""; }
  std::string operator()(const NormAttributes& norm) const {
    std::string out = fmt::format("  epsilon={:.6}", norm.epsilon);
    if (norm.weight_offset != 0.0F) out += fmt::format(" weight_offset={:.6}", norm.weight_offset);
    return out;
  }
  std::string operator()(const RopeAttributes& rope) const { return rope_text(rope); }
  std::string operator()(const AttentionAttributes& attention) const {
    std::string out = fmt::format("  scale={:.6}", attention.scale);
    if (attention.window != 0) out += fmt::format(" window={}", attention.window);
    if (attention.softcap != 0.0F) out += fmt::format(" softcap={:.6}", attention.softcap);
    return out;
  }
  std::string operator()(const ActivationAttributes& activation) const {
    return fmt::format("  {}", name(activation.kind));
  }
  std::string operator()(const SoftcapAttributes& softcap) const { return fmt::format("  cap={:.6}", softcap.cap); }
  std::string operator()(const ScaleAttributes& scale) const { return fmt::format("  factor={:.6}", scale.factor); }
  std::string operator()(const SplitAttributes& split) const {
    return fmt::format("  sizes=[{}]", fmt::join(split.sizes, ", "));
  }
  std::string operator()(const ShapeAttributes&) const { return ""; }  // it is the shape of the result
  std::string operator()(const PermutationAttributes& permutation) const {
    return "  axes=" + axes_text(permutation.axes);
  }
  std::string operator()(const AxisAttributes& axis) const { return fmt::format("  axis={}", axis.axis); }
  std::string operator()(const SliceAttributes& slice) const {
    return fmt::format("  axis={} [{}, {})", slice.axis, slice.begin.text(), slice.end.text());
  }
  std::string operator()(const CastAttributes& cast) const { return fmt::format("  to={}", tensor::name(cast.dtype)); }
};

std::string call_text(const Graph& graph, const Node& node) {
  std::string operands;
  for (const ValueId id : node.inputs) operands += (operands.empty() ? "" : ", ") + graph.value(id).name;
  return fmt::format("{}({}){}", name(node.op), operands, std::visit(AttributesText{}, node.attributes));
}

// Rows of a section, their columns aligned; the last column runs free.
class Section {
 public:
  explicit Section(std::string_view title) : title_(title) {}

  void add(std::vector<std::string> row) {
    widths_.resize(std::max(widths_.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths_[i] = std::max(widths_[i], row[i].size());
    rows_.push_back(std::move(row));
  }

  // Empty when there is no row.
  std::string text() const {
    if (rows_.empty()) return "";
    std::string out = fmt::format("\n{}\n", title_);
    for (const std::vector<std::string>& row : rows_) {
      std::string line;
      for (std::size_t i = 0; i < row.size(); ++i) line += fmt::format("  {:{}}", row[i], widths_[i]);
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
    return out;
  }

 private:
  std::string_view title_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> widths_;
};

Section values_text(const Graph& graph, std::string_view title, ValueKind kind) {
  Section section(title);
  for (const Value& value : graph.values) {
    if (value.kind != kind) continue;
    section.add({value.name, type_text(value), kind == ValueKind::constant ? "= " + list_text(value.data) : ""});
  }
  return section;
}

Section states_text(const Graph& graph) {
  Section section("states");
  for (const State& state : graph.states) {
    const Value& value = graph.value(state.value);
    section.add({value.name, type_text(value), fmt::format("layer {}", state.layer), std::string(name(state.role)),
                 state.window == 0 ? "full" : fmt::format("window {}", state.window)});
  }
  return section;
}

Section nodes_text(const Graph& graph) {
  Section section("nodes");
  for (const Node& node : graph.nodes) {
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const Value& made = graph.value(node.outputs[i]);
      const std::string call = i == 0 ? "= " + call_text(graph, node) : "";
      section.add({made.name, type_text(made), call + (made.island ? "  island" : "")});
    }
  }
  return section;
}

Section outputs_text(const Graph& graph) {
  Section section("outputs");
  for (const ValueId id : graph.outputs) section.add({graph.value(id).name, type_text(graph.value(id))});
  return section;
}

}  // namespace

std::string to_text(const Graph& graph) {
  return fmt::format("graph {}\n", graph.name) + values_text(graph, "inputs", ValueKind::input).text() +
         states_text(graph).text() + values_text(graph, "weights", ValueKind::weight).text() +
         values_text(graph, "constants", ValueKind::constant).text() + nodes_text(graph).text() +
         outputs_text(graph).text();
}

}  // namespace pastkv::graph
