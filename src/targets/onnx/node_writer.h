// Writes ONNX nodes one at a time: names, attributes, small constants each once. Knows nothing of models.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/onnx/onnx.pb.h"
#include "graph/dim.h"

namespace pastkv::targets {

// An attribute of a node: a whole number, whole numbers, a fraction, or text.
struct OnnxAttribute {
  OnnxAttribute(std::string_view of, std::int64_t number) : name(of), type(onnx::AttributeProto::INT), whole{number} {}
  OnnxAttribute(std::string_view of, int number) : OnnxAttribute(of, static_cast<std::int64_t>(number)) {}
  OnnxAttribute(std::string_view of, std::vector<std::int64_t> numbers)
      : name(of), type(onnx::AttributeProto::INTS), whole(std::move(numbers)) {}
  OnnxAttribute(std::string_view of, float number) : name(of), type(onnx::AttributeProto::FLOAT), fraction(number) {}
  OnnxAttribute(std::string_view of, const char* written)
      : name(of), type(onnx::AttributeProto::STRING), text(written) {}

  std::string name;
  onnx::AttributeProto::AttributeType type;
  std::vector<std::int64_t> whole;
  float fraction = 0.0F;
  std::string text;
};
using OnnxAttributes = std::vector<OnnxAttribute>;

class NodeWriter {
 public:
  explicit NodeWriter(onnx::GraphProto& graph) : graph_(graph) {}

  // Appends a node with one result; gives the result's name: `wanted`, or one that begins with the operation's.
  std::string node(std::string_view op, const std::vector<std::string>& inputs, const OnnxAttributes& attributes = {},
                   const std::string& wanted = "");
  void node(std::string_view op, std::string_view domain, const std::vector<std::string>& inputs,
            const std::vector<std::string>& outputs, const OnnxAttributes& attributes);

  // Initializers that lie in the message itself; the same numbers are one. `shape` empty: a scalar.
  std::string integers(const std::vector<std::int64_t>& numbers, const std::vector<std::int64_t>& shape);
  std::string integers(const std::vector<std::int64_t>& numbers);  // of one axis
  std::string floats(const std::vector<double>& numbers, const std::vector<std::int64_t>& shape, bool f16);

  // The size as a tensor [1] of whole numbers.
  std::string dim(const graph::Dim& dim);
  // A shape for Reshape: the last size that is no number becomes -1.
  std::string reshape_target(const graph::Shape& shape);
  std::string exact_shape(const graph::Shape& shape);

  std::string fresh(std::string_view stem);  // a name that no value has
  void take(const std::string& name) { taken_.insert(name); }

 private:
  std::string raw(std::int32_t type, const std::vector<std::int64_t>& shape, std::string bytes, std::string_view stem);
  std::string size_of(graph::Symbol symbol);

  onnx::GraphProto& graph_;
  std::set<std::string> taken_;
  std::map<std::string, int, std::less<>> counts_;
  std::map<std::string, std::string> constants_;  // by type, shape and bytes
  std::map<std::string, std::string> dims_;       // by their text
  std::map<std::string, std::string> shapes_;
};

}  // namespace pastkv::targets
