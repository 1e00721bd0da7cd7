// Lowers the operations of a graph to MIL, but for what a layout does in its own way: states, attention, matrix
// products, positions. Private to the room.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "targets/coreml/mil.h"
#include "targets/coreml/write.h"

namespace pastkv::targets::coreml {

// Where in the weight file the numbers of a weight lie, by its name in the graph.
using WeightOffsets = std::map<std::string, std::uint64_t>;

class Lowering {
 public:
  // `weight_type`: of the weight file. All must outlive this. `graph` was expanded, with the operations kept that
  // kept_operations() has.
  Lowering(const graph::Graph& graph, const WeightOffsets& offsets, proto::DataType weight_type,
           CoremlPrecision precision, FunctionWriter& writer);
  virtual ~Lowering() = default;
  Lowering(const Lowering&) = delete;
  Lowering& operator=(const Lowering&) = delete;

 protected:
  // Nodes [begin, end) of the graph, in their order.
  void lower(std::size_t begin, std::size_t end);

  // --- what a layout says ---
  virtual std::int64_t size(const graph::Dim& dim) const = 0;  // kAnySize where it is known at run time
  virtual Tensor run_time_integer(const graph::Dim& dim) = 0;  // of such a size, [1]
  virtual void lower_special(const graph::Node& node) = 0;     // linear, state_update, attention, pick_rows

  // --- for layouts ---
  proto::DataType type_of(graph::ValueId id) const;  // what a value is held in
  proto::DataType matrix_type() const { return weight_type_; }
  std::vector<std::int64_t> shape_of(graph::ValueId id) const;
  Tensor get(graph::ValueId id);                         // as it is held; a constant in the type that it would be held
  Tensor get(graph::ValueId id, proto::DataType dtype);  // cast when it is held in another
  Tensor cast(const Tensor& x, proto::DataType dtype);
  void set(graph::ValueId id, const Tensor& value);  // cast to what the value is held in
  const graph::Value& value(graph::ValueId id) const { return graph_.value(id); }

  const graph::Graph& graph_;
  FunctionWriter& w_;

 private:
  void lower(const graph::Node& node);
  void lower_gather(const graph::Node& node);
  void lower_binary(const graph::Node& node, const char* type);
  void lower_unary(const graph::Node& node, const char* type);
  void lower_activation(const graph::Node& node);
  void lower_slice(const graph::Node& node);
  void lower_layout(const graph::Node& node);
  void lower_reduce(const graph::Node& node, const char* type);
  Tensor reshape(const Tensor& x, const graph::Shape& shape);
  Tensor made(const graph::Node& node, const char* type, const std::vector<Operand>& operands, proto::DataType dtype);
  proto::DataType computed_in(const graph::Node& node) const;

  const WeightOffsets& offsets_;
  proto::DataType weight_type_;
  CoremlPrecision precision_;
  std::map<graph::ValueId, Tensor> held_;
  std::set<graph::ValueId> ranges_;
  std::map<std::pair<std::string, proto::DataType>, Tensor> casts_;
};

// Composite operations that MIL has, or that every layout writes in its own way.
std::set<graph::Op> kept_operations();

}  // namespace pastkv::targets::coreml
