// Reads an ONNX language model back to a graph: pairs of past and present become states, everything else primitive
// operations, and the whole runs in the reference interpreter. Takes what write.h writes, optimum's exports and those
// of onnxruntime-genai's builder.
#pragma once

#include <filesystem>

#include "targets/imported.h"

namespace pastkv::targets {

// `path`: an .onnx file, or a folder that holds one (at its top or in `onnx/`). Throws Error naming the node, tensor or
// file: what is damaged, external data outside the folder or past the end of a file, cycles, operations that are not
// known here, shapes that do not fit.
ImportedModel import_onnx(const std::filesystem::path& path);

}  // namespace pastkv::targets
