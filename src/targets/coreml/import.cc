#include "targets/coreml/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/error.h"
#include "formats/coreml/package.h"
#include "formats/coreml/weight_blob.h"
#include "formats/json_file.h"
#include "targets/coreml/program_reader.h"
#include "tensor/codec.h"

namespace pastkv::targets {
namespace {

namespace fs = std::filesystem;
namespace proto = formats::coreml::proto;
using coreml::StoredWeight;
using formats::coreml::BlobType;
using graph::Dim;
using graph::Shape;
using graph::Symbol;

constexpr std::int64_t kLargestSize = std::int64_t{1} << 31;

[[noreturn]] void fail(const fs::path& file, std::string place, std::string reason, std::string remedy = {}) {
  throw Error(
      {.file = file.string(), .place = std::move(place), .reason = std::move(reason), .remedy = std::move(remedy)});
}

// `package` itself, or the one package in it.
fs::path find_package(const fs::path& path) {
  std::error_code error;
  if (fs::exists(path / formats::coreml::kManifestPath, error)) return path;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    if (entry.path().extension() == ".mlpackage") found.push_back(entry.path());
  }
  if (found.size() == 1) return found.front();
  if (found.size() > 1) fail(path, {}, fmt::format("holds {} packages", found.size()), "give the path of one of them");
  return path;  // reading it says what is wrong
}

// --- inputs ---

struct Features {
  const google::protobuf::RepeatedPtrField<proto::FeatureDescription>* inputs = nullptr;
  std::string function;
};

Features features_of(const formats::coreml::MlPackage& package, const std::string& wanted) {
  const proto::ModelDescription& description = package.model.description();
  if (description.functions().empty())
    return {.inputs = &description.input(), .function = wanted.empty() ? "main" : wanted};
  const std::string name = wanted.empty() ? description.defaultfunctionname() : wanted;
  for (const proto::FunctionDescription& function : description.functions()) {
    if (function.name() == name) return {.inputs = &function.input(), .function = name};
  }
  fail(package.model_path, "functions", fmt::format("no function is called {}", name), "name one of the package");
}

// First and last size of each axis.
std::vector<std::pair<std::int64_t, std::int64_t>> ranges_of(const proto::ArrayFeatureType& array, const fs::path& file,
                                                             const std::string& place) {
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  if (array.has_shaperange()) {
    for (const proto::SizeRange& range : array.shaperange().sizeranges()) {
      out.emplace_back(static_cast<std::int64_t>(std::min<std::uint64_t>(range.lowerbound(), kLargestSize)),
                       range.upperbound());
    }
  } else if (array.has_enumeratedshapes()) {
    for (const auto& shape : array.enumeratedshapes().shapes()) {
      if (out.empty()) out.assign(static_cast<std::size_t>(shape.shape_size()), {kLargestSize, 0});
      for (std::size_t i = 0; i < out.size() && i < static_cast<std::size_t>(shape.shape_size()); ++i) {
        out[i].first = std::min(out[i].first, shape.shape(static_cast<int>(i)));
        out[i].second = std::max(out[i].second, shape.shape(static_cast<int>(i)));
      }
    }
  } else {
    for (const std::int64_t size : array.shape()) out.emplace_back(size, size);
  }
  for (const auto& [first, last] : out) {
    if (first < 1 || last < first || last > kLargestSize) {
      fail(file, place, fmt::format("has an axis from {} to {}", first, last));
    }
  }
  return out;
}

// What sizes a flexible input stands for: tokens are [1, query], and a mask ends with the tokens it covers.
Shape shape_of(const std::vector<std::pair<std::int64_t, std::int64_t>>& ranges, bool one_mask_row) {
  Shape out;
  for (const auto& [first, last] : ranges) out.emplace_back(first);
  const auto is_open = [&](std::size_t axis) { return ranges[axis].first != ranges[axis].second; };
  const std::size_t rank = ranges.size();
  if (rank == 0) return out;
  const bool is_mask = rank == 4;
  if (is_open(rank - 1)) out[rank - 1] = is_mask ? Dim(Symbol::past) + Symbol::query : Dim(Symbol::query);
  for (std::size_t axis = 0; axis + 1 < rank; ++axis) {
    if (is_open(axis)) out[axis] = is_mask && one_mask_row ? Dim(1) : Dim(Symbol::query);
  }
  return out;
}

// --- weights ---

class Weights {
 public:
  Weights(const formats::coreml::MlPackage& package, std::map<std::string, StoredWeight> stored)
      : stored_(std::move(stored)) {
    for (const auto& [name, weight] : stored_) {
      if (!files_.contains(weight.file)) {
        files_.emplace(weight.file,
                       formats::coreml::WeightBlobFile(formats::coreml::weight_file(package, weight.file)));
      }
      check(name, weight);
    }
  }

  std::vector<float> read(const std::string& name) const {
    const StoredWeight& weight = stored_.at(name);
    const formats::coreml::Blob blob = files_.at(weight.file).at(weight.offset);
    std::vector<float> out(blob.elements);
    tensor::decode_row(blob.type == BlobType::float16 ? tensor::DType::f16 : tensor::DType::f32, blob.bytes, out);
    return out;
  }

  void describe(ImportedModel& model) const {
    std::map<std::pair<std::string, std::uint64_t>, const StoredWeight*> once;
    for (const auto& [name, weight] : stored_) once[{weight.file, weight.offset}] = &weight;
    std::map<std::string, StoredWeights> by_type;
    for (const auto& [place, weight] : once) {
      const bool half = weight->dtype == proto::FLOAT16;
      StoredWeights& of = by_type[half ? "f16" : "f32"];
      of.type = half ? "f16" : "f32";
      of.bits = half ? 16 : 32;
      ++of.tensors;
      of.bytes += weight->elements * (half ? 2 : 4);
      model.parameters += weight->elements;
    }
    for (const auto& [type, of] : by_type) model.stored.push_back(of);
    std::ranges::sort(model.stored, std::ranges::greater(), &StoredWeights::bytes);
  }

 private:
  void check(const std::string& name, const StoredWeight& weight) const {
    const formats::coreml::WeightBlobFile& file = files_.at(weight.file);
    const formats::coreml::Blob blob = file.at(weight.offset);
    const auto wanted = weight.dtype == proto::FLOAT16 ? BlobType::float16 : BlobType::float32;
    if (blob.type == wanted && blob.elements == weight.elements) return;
    fail(file.file().path(), fmt::format("blob at byte {}", weight.offset),
         fmt::format("holds {} numbers of type {}, and {} wants {} of type {}", blob.elements,
                     static_cast<unsigned>(blob.type), name, weight.elements, static_cast<unsigned>(wanted)));
  }

  std::map<std::string, StoredWeight> stored_;
  std::map<std::string, formats::coreml::WeightBlobFile> files_;
};

// --- what lies beside ---

void read_companions(const fs::path& package, ImportedModel& model) {
  std::error_code error;
  const fs::path folder = package.has_parent_path() ? package.parent_path() : fs::path(".");
  if (fs::is_regular_file(folder / "tokenizer.json", error)) model.tokenizer_folder = folder;
  for (const char* name : {"generation_config.json", "config.json"}) {
    if (!model.eos_ids.empty() || !fs::is_regular_file(folder / name, error)) continue;
    const nlohmann::json document = formats::read_json_object(folder / name);
    const auto eos = document.find("eos_token_id");
    if (eos == document.end()) continue;
    for (const nlohmann::json& id : eos->is_array() ? *eos : nlohmann::json::array({*eos})) {
      if (id.is_number_integer()) model.eos_ids.push_back(id.get<std::int32_t>());
    }
  }
  std::ranges::sort(model.eos_ids);
}

}  // namespace

ImportedModel import_coreml(const fs::path& path, const CoremlImportOptions& options) {
  const formats::coreml::MlPackage package = formats::coreml::read_package(find_package(path));
  const Features features = features_of(package, options.function);
  std::map<std::string, std::vector<std::pair<std::int64_t, std::int64_t>>> ranges;
  for (const proto::FeatureDescription& input : *features.inputs) {
    ranges[input.name()] = ranges_of(input.type().multiarraytype(), package.model_path, "input " + input.name());
  }
  coreml::ProgramReader reader(package, features.function, [&](const std::string& name) {
    const auto found = ranges.find(name);
    if (found == ranges.end()) fail(package.model_path, "input " + name, "is not in the model's description");
    return shape_of(found->second, options.one_mask_row);
  });

  ImportedModel model{.name = package.path.stem().string(), .format = "coreml"};
  auto weights = std::make_shared<const Weights>(package, std::move(reader.weights()));
  model.graph = reader.finish();
  model.weights = [weights](const graph::Value& weight) { return weights->read(weight.name); };
  weights->describe(model);
  for (const graph::ValueId id : model.graph.outputs) {
    const graph::Value& output = model.graph.value(id);
    if (output.name == "logits" && !output.shape.empty() && output.shape.back().is_constant()) {
      model.vocab = output.shape.back().constant();
    }
  }
  for (const graph::State& state : model.graph.states) {  // [layers, batch, heads, context, head_dim]
    const Shape& shape = model.graph.value(state.value).shape;
    if (shape.size() >= 2) model.max_positions = shape[shape.size() - 2].constant();
  }
  model.facts.emplace_back("specification", fmt::format("{}", package.model.specificationversion()));
  for (const auto& [key, value] :
       std::map<std::string, std::string>(package.model.description().metadata().userdefined().begin(),
                                          package.model.description().metadata().userdefined().end())) {
    model.facts.emplace_back(key, value);
  }
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(package.path, error)) {
    if (entry.is_regular_file(error)) model.file_bytes += entry.file_size(error);
  }
  read_companions(package.path, model);
  return model;
}

}  // namespace pastkv::targets
