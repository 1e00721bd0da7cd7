// Reads the operations of a MIL function into a graph. Private to the room.
//
// Integers that a program computes from shapes are followed as sizes, so that the graph's shapes stay linear forms over
// its symbols; every other value becomes a value of the graph.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/coreml/model.pb.h"
#include "formats/coreml/package.h"
#include "graph/builder.h"

namespace pastkv::targets::coreml {

namespace proto = formats::coreml::proto;

// What a name of the program stands for.
struct Item {
  std::string name;
  proto::DataType dtype = proto::UNUSED_TYPE;
  graph::Shape shape;
  graph::ValueId value = -1;                     // in the graph; -1: made when it is asked for
  std::optional<std::vector<graph::Dim>> sizes;  // integers that are known, of at most one axis
  std::optional<std::vector<double>> numbers;    // of a constant: all of them
  std::string text;                              // of a constant string
  bool is_state = false;
};

// A weight of the graph, in the package's weight file.
struct StoredWeight {
  std::string file;  // as the program names it
  std::uint64_t offset = 0;
  proto::DataType dtype = proto::FLOAT16;
  std::uint64_t elements = 0;
};

class ProgramReader {
 public:
  // `shape_of_input`: the sizes that the graph has for an input of the function.
  ProgramReader(const formats::coreml::MlPackage& package, const std::string& function,
                const std::function<graph::Shape(const std::string& name)>& shape_of_input);

  graph::Graph finish() { return b_.finish(); }
  std::map<std::string, StoredWeight>& weights() { return weights_; }  // by the name in the graph

 private:
  using Handler = void (ProgramReader::*)(const proto::Operation& op);
  static const std::map<std::string, Handler, std::less<>>& handlers();

  void declare_inputs(const proto::Function& function,
                      const std::function<graph::Shape(const std::string& name)>& shape_of_input);
  void read(const proto::Operation& op);

  // --- operands ---
  [[noreturn]] void fail_text(std::string reason) const;
  bool has(const proto::Operation& op, std::string_view parameter) const;
  Item item(const proto::Operation& op, std::string_view parameter);
  std::vector<Item> items(const proto::Operation& op, std::string_view parameter);
  Item bound(const proto::Argument::Binding& binding);
  std::vector<graph::Dim> sizes(const proto::Operation& op, std::string_view parameter);
  std::vector<std::int64_t> integers(const proto::Operation& op, std::string_view parameter);
  std::int64_t integer(const proto::Operation& op, std::string_view parameter, std::int64_t otherwise);
  double number(const proto::Operation& op, std::string_view parameter, double otherwise);
  bool flag(const proto::Operation& op, std::string_view parameter, bool otherwise);
  std::vector<bool> flags(const proto::Operation& op, std::string_view parameter, std::size_t count);
  Item constant(const proto::Value& value, const std::string& name);
  std::string graph_name(const std::string& name) const;

  // --- making values ---
  graph::ValueId tensor(Item& of);  // the value in the graph
  graph::ValueId tensor(Item&& of) { return tensor(of); }
  graph::ValueId tensor(const proto::Operation& op, std::string_view parameter) { return tensor(item(op, parameter)); }
  graph::ValueId size_tensor(const std::vector<graph::Dim>& dims, bool scalar);
  graph::ValueId scalar(double number, tensor::DType dtype = tensor::DType::f32);
  graph::ValueId emit(graph::Op op, std::vector<graph::ValueId> inputs, graph::Attributes attributes = {});
  const graph::Shape& shape(graph::ValueId id) const { return b_.graph().value(id).shape; }
  tensor::DType dtype(graph::ValueId id) const { return b_.graph().value(id).dtype; }
  graph::ValueId reshape(graph::ValueId x, graph::Shape to);
  graph::ValueId transpose(graph::ValueId x, std::vector<int> axes);
  graph::ValueId swap_last(graph::ValueId x);
  graph::ValueId slice(graph::ValueId x, int axis, const graph::Dim& begin, const graph::Dim& end);
  graph::ValueId as_dtype(graph::ValueId x, tensor::DType to);
  graph::ValueId floats(graph::ValueId x) { return as_dtype(x, tensor::DType::f32); }
  int axis_of(std::int64_t axis, std::size_t rank) const;
  void set(const proto::Operation& op, graph::ValueId value, int output = 0);
  void set_sizes(const proto::Operation& op, std::vector<graph::Dim> sizes);

  // --- operations (program_operations.cc, program_layout.cc) ---
  void read_const(const proto::Operation& op);
  void read_identity(const proto::Operation& op);
  void read_cast(const proto::Operation& op);
  void read_arithmetic(const proto::Operation& op);
  void read_comparison(const proto::Operation& op);
  void read_logical(const proto::Operation& op);
  void read_function(const proto::Operation& op);
  void read_activation(const proto::Operation& op);
  void read_reduce(const proto::Operation& op);
  void read_softmax(const proto::Operation& op);
  void read_layer_norm(const proto::Operation& op);
  void read_linear(const proto::Operation& op);
  void read_matmul(const proto::Operation& op);
  void read_conv(const proto::Operation& op);
  void read_attention(const proto::Operation& op);
  void read_select(const proto::Operation& op);
  void read_shape(const proto::Operation& op);
  void read_gather(const proto::Operation& op);
  void read_slice_by_index(const proto::Operation& op);
  void read_slice_by_size(const proto::Operation& op);
  void read_slice_update(const proto::Operation& op);
  void read_concat(const proto::Operation& op);
  void read_stack(const proto::Operation& op);
  void read_split(const proto::Operation& op);
  void read_reshape(const proto::Operation& op);
  void read_expand_dims(const proto::Operation& op);
  void read_squeeze(const proto::Operation& op);
  void read_transpose(const proto::Operation& op);
  void read_tile(const proto::Operation& op);
  void read_range(const proto::Operation& op);
  void read_state(const proto::Operation& op);
  void read_write_state(const proto::Operation& op);

  std::optional<std::vector<graph::Dim>> computed(const std::string& type, const Item& x, const Item& y) const;
  graph::ValueId binary(const std::string& type, graph::ValueId x, graph::ValueId y);
  void read_slice(const proto::Operation& op, Item x, const std::vector<graph::Dim>& begin,
                  const std::vector<graph::Dim>& end, const std::vector<bool>& squeezed);

  const formats::coreml::MlPackage& package_;
  graph::Builder b_;
  std::map<std::string, Item, std::less<>> items_;
  std::map<std::string, StoredWeight> weights_;
  std::map<std::pair<double, tensor::DType>, graph::ValueId> scalars_;
  int constants_ = 0;
  std::string place_;  // the operation at hand, for errors
};

}  // namespace pastkv::targets::coreml
