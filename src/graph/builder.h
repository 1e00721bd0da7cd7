// Writes a graph one operation at a time: each call infers the shape of its result and returns its value.
// A mistake in a model file (shapes that do not fit) is a std::logic_error here, not later.
#pragma once

#include <map>
#include <string>
#include <unordered_map>

#include "graph/graph.h"

namespace pastkv::graph {

class Builder {
 public:
  explicit Builder(std::string name);

  ValueId input(std::string name, tensor::DType dtype, Shape shape);
  ValueId weight(std::string name, Shape shape);  // the same name gives the same value (tied weights)
  ValueId constant(std::string name, Shape shape, std::vector<double> data, tensor::DType dtype = tensor::DType::f32);
  ValueId state(std::string name, StateRole role, int layer, std::int64_t heads, std::int64_t head_dim,
                std::int64_t window, Dim batch = Symbol::batch);
  ValueId buffer(std::string name, Shape shape);

  ValueId embedding(ValueId ids, ValueId table);
  ValueId linear(ValueId x, ValueId weight, ValueId bias = -1);
  ValueId rms_norm(ValueId x, ValueId weight, NormAttributes attributes);
  ValueId layer_norm(ValueId x, ValueId weight, ValueId bias, NormAttributes attributes);
  ValueId rope(ValueId x, ValueId positions, RopeAttributes attributes);
  ValueId state_update(ValueId state, ValueId x);
  ValueId attention(ValueId q, ValueId keys, ValueId values, AttentionAttributes attributes, ValueId mask = -1);
  ValueId activation(ValueId x, Activation kind);
  ValueId softcap(ValueId x, float cap);
  ValueId pick_rows(ValueId x);
  ValueId add(ValueId a, ValueId b);
  ValueId multiply(ValueId a, ValueId b);
  ValueId scale(ValueId x, float factor);
  std::vector<ValueId> split(ValueId x, std::vector<std::int64_t> sizes);
  ValueId reshape(ValueId x, Shape shape);

  // Any operation, primitive ones too. Results are numbered by operation ("linear_12"; of several, "split_3.0").
  std::vector<ValueId> emit(Op op, std::vector<ValueId> inputs, Attributes attributes = {}, int outputs = 1);

  const Graph& graph() const { return graph_; }  // so far
  void set_island(ValueId value);                // see Value::island

  void output(ValueId value, std::string name);  // renames it
  Graph finish();                                // verified; the builder is empty afterwards

 private:
  ValueId add_value(Value value);

  Graph graph_;
  std::unordered_map<std::string, ValueId> ids_;  // of every value, by name
  std::map<Op, int> counts_;                      // results made so far, for their names
};

}  // namespace pastkv::graph
