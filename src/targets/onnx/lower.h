// Lowers a graph to ONNX nodes.
//
// Activations go through linears, norms and everything elementwise as rows, [batch * query, width]: a linear is then a
// Gemm over the matrix as it lies in the file, and no matrix is transposed or kept twice. What depends on positions
// gets the full shape. With f16, norms, softmax, angles and the sums of the residual stream are computed in f32; the
// rest in f16.
#pragma once

#include <vector>

#include "formats/onnx/onnx.pb.h"
#include "graph/graph.h"
#include "models/weight_rows.h"
#include "targets/onnx/weights.h"
#include "targets/onnx/write.h"

namespace pastkv::targets {

// Fills inputs, outputs, nodes and initializers of `out`. `graph` comes from decoder_graph; `rows` by its ValueId,
// which must outlive `weights`. Returns what could not be written as asked.
std::vector<std::string> lower_to_onnx(const graph::Graph& graph, const std::vector<const models::WeightRows*>& rows,
                                       const OnnxOptions& options, onnx::GraphProto& out, OnnxWeights& weights);

// The version of the standard's operations that the lowered graph needs.
std::int64_t onnx_opset(const graph::Graph& graph, const OnnxOptions& options);

}  // namespace pastkv::targets
