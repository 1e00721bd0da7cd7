// How each weight lies in the data file, and its way there: some rows at a time, from the mapped source.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/output.h"
#include "base/progress.h"
#include "formats/onnx/onnx.pb.h"
#include "formats/onnx/onnx_data.h"
#include "models/weight_rows.h"

namespace pastkv::targets {

enum class OnnxEncoding : std::uint8_t {
  f32,
  f16,
  int8,   // blocks of 32 along a row: signed values, and scales beside them
  uint8,  // the same, 128 higher
  int4,   // two to a byte, the low half first: signed values
  uint4,  // the same, 8 higher
};

// What stands for one weight in the graph: one initializer, or values and scales.
struct OnnxStored {
  std::string values;
  std::string scales;  // empty but for blocks: f32 [rows, blocks]
};

class OnnxWeights {
 public:
  static constexpr std::int64_t kBlock = 32;

  OnnxWeights(onnx::GraphProto& graph, std::string location) : graph_(graph), layout_(std::move(location)) {}

  // Adds the initializers. The rows of `values` of blocks have the shape [width] or, `in_blocks`, [blocks, bytes of a
  // block] as uint8.
  OnnxStored add(const models::WeightRows& rows, const std::string& name, OnnxEncoding encoding, bool in_blocks);

  std::uint64_t bytes() const { return layout_.size(); }
  // Throws Error when a number is too large for f16.
  void write(OutputFile& file, const ProgressSink& progress) const;

 private:
  struct Placed {
    const models::WeightRows* rows;
    OnnxEncoding encoding;
  };

  onnx::GraphProto& graph_;
  formats::OnnxDataLayout layout_;
  std::vector<Placed> placed_;
};

// Whether rows of this width can be cut into blocks.
bool has_blocks(std::int64_t width);

}  // namespace pastkv::targets
