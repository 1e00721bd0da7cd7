#include "targets/onnx/write.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/output.h"
#include "base/version.h"
#include "formats/onnx/onnx_file.h"
#include "models/architecture.h"
#include "models/spelling.h"
#include "targets/hf/side_files.h"
#include "targets/onnx/decoder_graph.h"
#include "targets/onnx/genai_config.h"
#include "targets/onnx/lower.h"
#include "targets/onnx/weights.h"

namespace pastkv::targets {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModelFile = "onnx/model.onnx";
constexpr const char* kDataName = "model.onnx_data";  // beside the model; the name that transformers.js looks for

// transformers.js picks the file by a data type unless it is told one: "fp32" is the file without a suffix, whatever
// its weights are.
models::HfJson config_of(const models::Model& model, const OnnxOptions& options) {
  models::HfJson config = hf_config(model, options.precision == OnnxPrecision::fp16 ? "float16" : "float32");
  config["transformers.js_config"] = {{"dtype", "fp32"}, {"use_external_data_format", true}};
  return config;
}

void write_text(const OutputFolder& folder, const std::string& name, std::string_view text, Written& written) {
  OutputFile file = folder.file(name);
  file.write(text);
  written.files.push_back(name);
  written.bytes += file.size();
  file.commit();
}

onnx::ModelProto model_proto(std::int64_t opset, const OnnxOptions& options) {
  onnx::ModelProto proto;
  proto.set_ir_version(10);
  proto.set_producer_name("pastkv");
  proto.set_producer_version(std::string(version()));
  onnx::OperatorSetIdProto& standard = *proto.add_opset_import();
  standard.set_domain("");
  standard.set_version(opset);
  if (options.ops == OnnxOps::contrib) {
    onnx::OperatorSetIdProto& contrib = *proto.add_opset_import();
    contrib.set_domain("com.microsoft");
    contrib.set_version(1);
  }
  return proto;
}

}  // namespace

std::optional<OnnxOps> onnx_ops_from_name(std::string_view name) {
  if (name == "standard") return OnnxOps::standard;
  if (name == "contrib") return OnnxOps::contrib;
  return std::nullopt;
}

std::optional<OnnxPrecision> onnx_precision_from_name(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, OnnxPrecision>, 4> kNames = {{{"fp32", OnnxPrecision::fp32},
                                                                                 {"fp16", OnnxPrecision::fp16},
                                                                                 {"int8", OnnxPrecision::int8},
                                                                                 {"int4", OnnxPrecision::int4}}};
  for (const auto& [known, precision] : kNames) {
    if (known == name) return precision;
  }
  return std::nullopt;
}

Written write_onnx(const models::Model& model, const fs::path& out, const OnnxOptions& options,
                   const WriteContext& context) {
  const models::CanonicalModel canonical = models::canonical(model);
  const bool position_ids = !models::architecture_of(model.config).counts_positions;
  const graph::Graph graph = decoder_graph(canonical.graph, position_ids);
  std::vector<const models::WeightRows*> rows(graph.values.size(), nullptr);
  for (std::size_t i = 0; i < canonical.weights.size(); ++i) {
    if (!canonical.weights[i].parts.empty()) rows[i] = &canonical.weights[i];
  }

  onnx::ModelProto proto = model_proto(onnx_opset(graph, options), options);
  OnnxWeights weights(*proto.mutable_graph(), kDataName);
  proto.mutable_graph()->set_name(model.name);
  std::vector<std::string> notes = lower_to_onnx(graph, rows, options, *proto.mutable_graph(), weights);
  if (proto.ByteSizeLong() > formats::kOnnxMessageLimit) {
    throw Error({.file = out.string(), .reason = "the graph alone is larger than an ONNX message can be"});
  }

  OutputFolder folder(out, context.replace);
  require_space(out, weights.bytes() + proto.ByteSizeLong());
  Written written;
  written.notes = std::move(notes);
  const models::HfJson config = config_of(model, options);
  write_side_files(model, config, folder, written);
  write_text(folder, "genai_config.json", genai_config(model, config, kModelFile, position_ids).dump(2) + "\n",
             written);
  write_text(folder, kModelFile, proto.SerializeAsString(), written);

  const std::string data_file = (fs::path(kModelFile).parent_path() / kDataName).string();
  OutputFile data = folder.file(data_file);
  weights.write(data, context.progress);
  written.files.push_back(data_file);
  written.bytes += data.size();
  data.commit();
  folder.commit();
  return written;
}

}  // namespace pastkv::targets
