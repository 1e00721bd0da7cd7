// Reads a Core ML package with states back into a graph that the reference interpreter runs.
//
// The program is taken as it stands, operation by operation: its states stay buffers of a fixed capacity, and numbers
// that it computes from shapes become sizes of the graph. The width of the caller's mask decides how many tokens came
// before, as it does on a device.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "targets/imported.h"

namespace pastkv::targets {

struct CoremlImportOptions {
  bool one_mask_row = false;  // the caller's mask has height 1, not one row for each token
  std::string function;       // of a package with several; empty: its default
};

// `package`: an .mlpackage folder, or a folder that holds exactly one. Throws Error that names the fault: what is no
// package, paths that leave it, damaged programs, offsets beyond the weights, operations that are not known.
ImportedModel import_coreml(const std::filesystem::path& package, const CoremlImportOptions& options = {});

}  // namespace pastkv::targets
