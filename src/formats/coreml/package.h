// The folder that is a Core ML model: Manifest.json, which names its items, a program and its weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/output.h"
#include "formats/coreml/model.pb.h"

namespace pastkv::formats::coreml {

// How a program names its weight file.
inline constexpr const char* kWeightFile = "@model_path/weights/weight.bin";

// Where the parts of a package are written, below its folder.
inline constexpr const char* kManifestPath = "Manifest.json";
inline constexpr const char* kModelPath = "Data/com.apple.CoreML/model.mlmodel";
inline constexpr const char* kWeightsPath = "Data/com.apple.CoreML/weights/weight.bin";

// The same bytes for the same model, always.
std::string serialized(const proto::Model& model);

// Manifest.json for a package with these bytes as its model. Identifiers are derived from them.
std::string manifest(const std::string& model_bytes);

struct MlPackage {
  std::filesystem::path path;
  std::filesystem::path model_path;  // of model.mlmodel
  proto::Model model;
};

// Throws Error: no manifest, no root model, paths that leave the package, a model that is no ML program or larger than
// 2 GB, or cannot be parsed.
MlPackage read_package(const std::filesystem::path& path);

// The file that a program of the package calls `name` (kWeightFile). Throws Error when it leaves the package.
std::filesystem::path weight_file(const MlPackage& package, const std::string& name);

}  // namespace pastkv::formats::coreml
