// Any bytes as an ONNX model: imported and its weights read, or refused with an Error.
#include "base/error.h"
#include "formats/onnx/onnx_file.h"
#include "scratch_file.h"
#include "targets/onnx/import.h"

using namespace pastkv;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::ScratchFile input(data, size);
  try {
    const targets::ImportedModel model = targets::import_onnx(input.path());
    for (const graph::Value& value : model.graph.values) {
      if (value.kind != graph::ValueKind::weight) continue;
      try {
        model.weights(value);
      } catch (const Error&) {
      }
    }
  } catch (const Error&) {
  }
  return 0;
}
