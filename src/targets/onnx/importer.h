// Walks the nodes of an ONNX decoder and writes the graph that they mean. Private to import.cc and its parts:
// importer.cc (values, weights, order), importer_sizes.cc (what is computed from shapes), importer_nodes.cc (operations
// of the standard), importer_contrib.cc (those of ONNX Runtime).
//
// A graph knows its sizes as linear forms, so a file's batch is bound to 1: rows of several sequences laid one after
// the other, [batch * query, width], then have a shape like any other.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "formats/onnx/onnx.pb.h"
#include "formats/onnx/onnx_file.h"
#include "graph/builder.h"
#include "targets/imported.h"

namespace pastkv::targets {

// What stands under a name of the file.
struct OnnxItem {
  graph::ValueId id = -1;  // in the graph; -1 when only `sizes` are known so far
  graph::Shape shape;
  tensor::DType dtype = tensor::DType::f32;        // f32, i64 or boolean
  std::optional<std::vector<graph::Dim>> sizes{};  // whole numbers that follow from shapes, row-major
  int state = -1;                                  // a past that nobody read yet
};

class OnnxImporter {
 public:
  // `head_width`: channels of a head, where the file calls them by a symbol; 0 when it is not known.
  OnnxImporter(const formats::OnnxFile& file, std::int64_t head_width);

  // Fills graph, weights, vocab, parameters and stored of `out`.
  void run(ImportedModel& out);

 private:
  using Item = OnnxItem;
  using Loader = std::function<std::vector<float>()>;
  using Handler = void (OnnxImporter::*)(const onnx::NodeProto&);

  struct Cache {
    std::string past;     // name of the input
    std::string present;  // name of the output
    graph::ValueId state = -1;
    bool written = false;
  };

  // --- importer.cc ---
  void read_inputs();
  void add_cache(const onnx::ValueInfoProto& input, const graph::Shape& shape);
  void find_presents();
  std::vector<const onnx::NodeProto*> ordered() const;
  void import(const onnx::NodeProto& node);
  void finish(ImportedModel& out);
  [[noreturn]] void refuse(const std::string& reason) const;  // names the node at hand

  bool has(const onnx::NodeProto& node, int i) const { return i < node.input_size() && !node.input(i).empty(); }
  const Item& item(const std::string& name);
  const Item& in(const onnx::NodeProto& node, int i);
  Item initializer(const formats::OnnxTensor& tensor, bool external = false);
  formats::OnnxTensor constant_in(const onnx::NodeProto& node, int i) const;  // throws Error when it is computed
  bool is_constant(const std::string& name) const;
  graph::ValueId weight(const std::string& name, std::vector<std::int64_t> shape, Loader load,
                        const std::vector<formats::OnnxTensor>& stored, const std::string& type, int bits);

  graph::ValueId id(const Item& item);  // makes sizes into a value
  graph::ValueId id(const onnx::NodeProto& node, int i) { return id(in(node, i)); }
  graph::ValueId number(double value, tensor::DType dtype = tensor::DType::f32);
  graph::ValueId constant(graph::Shape shape, std::vector<double> data, tensor::DType dtype);
  graph::ValueId emit(graph::Op op, std::vector<graph::ValueId> inputs, graph::Attributes attributes = {});
  const graph::Shape& shape(graph::ValueId id) const { return b_.graph().value(id).shape; }
  tensor::DType dtype(graph::ValueId id) const { return b_.graph().value(id).dtype; }
  void give(const onnx::NodeProto& node, int output, graph::ValueId id);
  void give(const onnx::NodeProto& node, Item item) { items_[node.output(0)] = std::move(item); }

  static const onnx::AttributeProto* attribute(const onnx::NodeProto& node, std::string_view name);
  static std::int64_t whole(const onnx::NodeProto& node, std::string_view name, std::int64_t otherwise);
  static float fraction(const onnx::NodeProto& node, std::string_view name, float otherwise);
  static std::string text(const onnx::NodeProto& node, std::string_view name);

  // --- importer_sizes.cc ---
  bool known_sizes(const onnx::NodeProto& node);  // true when the node's result is sizes, and given
  bool may_be_sizes(const std::string& name);
  const std::vector<graph::Dim>& sizes_in(const onnx::NodeProto& node, int i);
  std::vector<std::int64_t> numbers_in(const onnx::NodeProto& node, int i);
  std::optional<std::vector<graph::Dim>> sizes_of_binary(const std::string& op, const Item& a, const Item& b) const;
  graph::Shape reshaped(const graph::Shape& from, const std::vector<graph::Dim>& target, bool allow_zero) const;
  graph::ValueId value_of_size(const graph::Dim& dim);  // [1], i64

  // --- importer_nodes.cc ---
  static const std::map<std::string, Handler, std::less<>>& handlers();
  void on_identity(const onnx::NodeProto& node);
  void on_cast(const onnx::NodeProto& node);
  void on_constant(const onnx::NodeProto& node);
  void on_shape(const onnx::NodeProto& node);
  void on_gather(const onnx::NodeProto& node);
  void on_slice(const onnx::NodeProto& node);
  void on_concat(const onnx::NodeProto& node);
  void on_reshape(const onnx::NodeProto& node);  // and Unsqueeze, Squeeze, Flatten
  void on_transpose(const onnx::NodeProto& node);
  void on_expand(const onnx::NodeProto& node);
  void on_constant_of_shape(const onnx::NodeProto& node);
  void on_range(const onnx::NodeProto& node);
  void on_where(const onnx::NodeProto& node);
  void on_binary(const onnx::NodeProto& node);
  void on_unary(const onnx::NodeProto& node);
  void on_softmax(const onnx::NodeProto& node);
  void on_reduce(const onnx::NodeProto& node);
  void on_matmul(const onnx::NodeProto& node);
  void on_gemm(const onnx::NodeProto& node);
  void on_cumsum(const onnx::NodeProto& node);
  void on_split(const onnx::NodeProto& node);
  void on_norm(const onnx::NodeProto& node);
  void on_dequantize(const onnx::NodeProto& node);
  graph::ValueId logical_not(graph::ValueId x);
  graph::ValueId sigmoid(graph::ValueId x);
  graph::ValueId matrix(const onnx::NodeProto& node, int i, bool transposed);  // a constant as weight [out, in]

  // --- importer_contrib.cc ---
  void on_grouped_attention(const onnx::NodeProto& node);
  void on_skip_norm(const onnx::NodeProto& node);
  void on_block_matmul(const onnx::NodeProto& node);
  void on_rotary(const onnx::NodeProto& node);
  void on_block_gather(const onnx::NodeProto& node);
  Loader block_loader(const formats::OnnxTensor& values, const formats::OnnxTensor& scales,
                      const std::optional<formats::OnnxTensor>& zeros, std::int64_t rows, std::int64_t width,
                      std::int64_t block, int bits) const;
  graph::ValueId rotated(graph::ValueId x, graph::ValueId cosine, graph::ValueId sine, bool interleaved);
  std::int64_t channels(graph::ValueId x) const;  // of the last axis
  graph::ValueId past_of(const std::string& name, const std::string& present);

  const formats::OnnxFile& file_;
  std::int64_t head_width_;
  graph::Builder b_;
  const onnx::NodeProto* at_ = nullptr;
  std::map<std::string, Item> items_;
  std::map<std::string, const onnx::TensorProto*> initializers_;
  std::map<std::string, const onnx::TensorProto*> constants_;  // of Constant nodes, by the name of the result
  std::vector<Cache> caches_;
  std::map<std::string, Loader> loaders_;  // by the name of the weight
  std::map<std::string, graph::ValueId> matrices_;
  std::vector<StoredWeights> stored_;
  std::uint64_t parameters_ = 0;
  int numbered_ = 0;
};

}  // namespace pastkv::targets
