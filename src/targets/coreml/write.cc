#include "targets/coreml/write.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/output.h"
#include "base/version.h"
#include "formats/coreml/package.h"
#include "graph/expand.h"
#include "graph/residual.h"
#include "models/spelling.h"
#include "targets/coreml/transformers_layout.h"
#include "targets/coreml/weights.h"
#include "targets/hf/side_files.h"

namespace pastkv::targets {
namespace {

namespace fs = std::filesystem;
using formats::coreml::BlobType;

constexpr std::int64_t kDefaultContext = 2048;
constexpr std::int64_t kLargestContext = std::int64_t{1} << 22;

[[noreturn]] void refuse(std::string place, std::string reason, std::string remedy) {
  throw Error({.file = {}, .place = std::move(place), .reason = std::move(reason), .remedy = std::move(remedy)});
}

std::string precision_name(CoremlPrecision precision) {
  switch (precision) {
    case CoremlPrecision::fp16:
      return "float16";
    case CoremlPrecision::fp32:
      return "float32";
    case CoremlPrecision::mixed:
      return "mixed";
  }
  return {};
}

coreml::StateSizes state_sizes(const models::ModelConfig& config, const CoremlOptions& options,
                               std::vector<std::string>& notes) {
  coreml::StateSizes sizes{.layers = static_cast<std::int64_t>(config.layers.size())};
  bool differ = false;
  for (const models::LayerConfig& layer : config.layers) {
    differ = differ || layer.kv_heads != config.layers[0].kv_heads || layer.head_dim != config.layers[0].head_dim;
    sizes.heads = std::max(sizes.heads, layer.kv_heads);
    sizes.head_dim = std::max(sizes.head_dim, layer.head_dim);
  }
  sizes.context = options.context != 0 ? options.context : std::min(kDefaultContext, config.max_positions);
  if (sizes.context < 3 || sizes.context > kLargestContext) {
    refuse("--context", fmt::format("is {}, wanted 3 to {} tokens", sizes.context, kLargestContext),
           "choose one between them");
  }
  if (sizes.context > config.max_positions) {
    notes.push_back(fmt::format("a context of {} tokens is more than the {} that the model was made for", sizes.context,
                                config.max_positions));
  }
  if (differ) {
    notes.push_back(fmt::format("layers have different numbers of KV heads; every layer of the states has room for {}",
                                sizes.heads));
  }
  return sizes;
}

void note_ropes(const models::ModelConfig& config, std::int64_t context, std::vector<std::string>& notes) {
  for (const graph::RopeAttributes& rope : config.ropes) {
    const auto& frequencies = rope.frequencies;
    if (frequencies.rule == graph::RopeRule::fixed || frequencies.switch_length >= context) continue;
    notes.push_back(
        fmt::format("the rope table changes at {} tokens; a text that grows beyond must be run from its "
                    "start, by makeState()",
                    frequencies.switch_length));
    return;
  }
}

void set_metadata(const models::Model& model, const CoremlOptions& options, std::int64_t context,
                  formats::coreml::proto::Metadata& metadata) {
  metadata.set_shortdescription(fmt::format("{}, a language model with its cache as states", model.name));
  auto& user = *metadata.mutable_userdefined();
  user["co.huggingface.exporters.name"] = options.repository.empty() ? model.name : options.repository;
  user["co.huggingface.exporters.task"] = "text-generation";
  user["co.huggingface.exporters.architecture"] = model.config.architecture;
  user["co.huggingface.exporters.framework"] = "pastkv";
  user["co.huggingface.exporters.precision"] = precision_name(options.precision);
  user["pastkv.version"] = std::string(version());
  user["pastkv.context"] = fmt::format("{}", context);
}

// What the fp16 forms of a program need: a residual stream that fits.
graph::Graph lowered(const graph::Graph& graph, CoremlPrecision precision) {
  const graph::ExpandOptions options{.keep = coreml::kept_operations()};
  if (precision == CoremlPrecision::fp32) return graph::expand(graph, options);
  return graph::expand(graph::scale_residual(graph, graph::kResidualScale), options);
}

// A package being written below a folder; its weights first, since the program names their offsets.
class PackageWriter {
 public:
  PackageWriter(const OutputFolder& folder, fs::path below, Written& written)
      : folder_(folder), below_(std::move(below)), written_(written) {}

  formats::coreml::WeightBlobWriter weights() const {
    return formats::coreml::WeightBlobWriter(folder_.file(below_ / formats::coreml::kWeightsPath));
  }

  void finish(const formats::coreml::proto::Model& model) {
    const std::string bytes = formats::coreml::serialized(model);
    write(formats::coreml::kModelPath, bytes);
    write(formats::coreml::kManifestPath, formats::coreml::manifest(bytes));
    count(formats::coreml::kWeightsPath);
  }

 private:
  void write(const char* name, const std::string& text) {
    OutputFile file = folder_.file(below_ / name);
    file.write(text);
    file.commit();
    count(name);
  }

  void count(const char* name) {
    written_.files.push_back((below_ / name).generic_string());
    written_.bytes += fs::file_size(folder_.path() / below_ / name);
  }

  const OutputFolder& folder_;
  fs::path below_;
  Written& written_;
};

// Configuration and tokenizer, so that a client needs nothing else.
void write_beside(const models::Model& model, const OutputFolder& folder, Written& written) {
  models::HfJson config;
  try {
    config = hf_config(model, "float16");
  } catch (const Error& error) {
    written.notes.push_back(
        fmt::format("no config.json nor tokenizer is written beside the package: {}", error.what()));
    return;
  }
  write_side_files(model, config, folder, written);
}

}  // namespace

Written write_coreml(const models::Model& model, const fs::path& out, const CoremlOptions& options,
                     const WriteContext& context) {
  Written written;
  const models::CanonicalModel canonical = models::canonical(model);
  const bool is_package = out.extension() == ".mlpackage";
  const coreml::StateSizes states = state_sizes(canonical.config, options, written.notes);
  note_ropes(canonical.config, states.context, written.notes);
  const graph::Graph graph = lowered(canonical.graph, options.precision);
  const auto blob_type = options.precision == CoremlPrecision::fp32 ? BlobType::float32 : BlobType::float16;
  require_space(out, coreml::weight_bytes(canonical, blob_type));

  OutputFolder folder(out, context.replace);
  PackageWriter package(folder, is_package ? fs::path() : fs::path(out.filename().string() + ".mlpackage"), written);
  formats::coreml::WeightBlobWriter weights = package.weights();
  const coreml::WeightOffsets offsets = coreml::write_weights(canonical, blob_type, weights, context, written.notes);
  weights.commit();

  formats::coreml::proto::Model file;
  file.set_specificationversion(9);
  file.mutable_mlprogram()->set_version(1);
  coreml::write_transformers_function(
      graph, offsets,
      blob_type == BlobType::float32 ? formats::coreml::proto::FLOAT32 : formats::coreml::proto::FLOAT16,
      options.precision, states, (*file.mutable_mlprogram()->mutable_functions())["main"], *file.mutable_description());
  set_metadata(model, options, states.context, *file.mutable_description()->mutable_metadata());
  package.finish(file);
  if (!is_package) write_beside(model, folder, written);
  folder.commit();
  return written;
}

}  // namespace pastkv::targets
