// Writes the operations of one MIL function, one at a time. Private to the room.
//
// Names are given here: unique in the function, and of the characters that MIL allows.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/coreml/model.pb.h"

namespace pastkv::targets::coreml {

namespace proto = formats::coreml::proto;

inline constexpr std::int64_t kAnySize = -1;  // of an axis: known only when the program runs

struct TensorType {
  proto::DataType dtype = proto::FLOAT16;
  std::vector<std::int64_t> shape;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

// The name of a value that was made, with its type.
struct Tensor {
  std::string name;
  TensorType type;
};

// One parameter of an operation: `x`, or several values for one that takes a list.
struct Operand {
  std::string_view parameter;
  std::vector<Tensor> values;
  bool list = false;

  Operand(std::string_view of, Tensor value) : parameter(of), values{std::move(value)} {}
  Operand(std::string_view of, std::vector<Tensor> several) : parameter(of), values(std::move(several)), list(true) {}
};

class FunctionWriter {
 public:
  explicit FunctionWriter(proto::Function& function);

  Tensor input(const std::string& name, TensorType type);
  Tensor state(const std::string& name, TensorType type);

  // Small constants; the same one is written once.
  Tensor integer(std::int64_t number);
  Tensor integers(const std::vector<std::int64_t>& numbers);
  Tensor boolean(bool value);
  Tensor booleans(const std::vector<bool>& values);
  Tensor text(const std::string& value);
  Tensor number(double value, proto::DataType dtype);  // FLOAT16 or FLOAT32
  Tensor numbers(const std::vector<double>& values, std::vector<std::int64_t> shape, proto::DataType dtype);
  // A constant whose numbers are the blob at `offset` of the weight file.
  Tensor weight(std::string_view name, TensorType type, std::uint64_t offset);

  // `hint`: what the name of the result begins with; empty: the type of the operation.
  Tensor op(const std::string& type, const std::vector<Operand>& operands, TensorType result,
            std::string_view hint = {});
  std::vector<Tensor> ops(const std::string& type, const std::vector<Operand>& operands,
                          const std::vector<TensorType>& results, std::string_view hint = {});
  void write_state(const Tensor& state, const Tensor& contents);

  // The result of the function, under the name that callers know.
  void output(const Tensor& value, const std::string& name);

 private:
  std::string unique(std::string_view hint);
  Tensor constant(const std::string& key, std::string_view hint, const proto::Value& value, TensorType type);
  proto::Operation& operation(const std::string& type, std::string_view name, const std::vector<Operand>& operands);

  proto::Function& function_;
  proto::Block& block_;
  std::map<std::string, Tensor, std::less<>> constants_;
  std::map<std::string, int, std::less<>> counts_;
  std::set<std::string, std::less<>> names_;
};

proto::ValueType value_type(const TensorType& type);

}  // namespace pastkv::targets::coreml
