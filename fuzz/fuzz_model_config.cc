// A config.json of any content either is refused with an Error or gives a graph without faults.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "formats/tensor_source.h"
#include "models/architecture.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pastkv;
  constexpr std::size_t kMostLayers = 16;  // larger graphs are the same again, and slow
  const nlohmann::json config = nlohmann::json::parse(data, data + size, nullptr, false);
  if (!config.is_object()) return 0;
  const formats::TensorSource no_tensors;
  try {
    const models::HfConfig reader(config, "config.json", no_tensors);
    const models::Architecture* architecture = models::find_by_hf(reader.find_string("model_type").value_or(""));
    if (architecture == nullptr) return 0;
    models::ModelConfig out;
    out.architecture = architecture->name;
    architecture->read_hf(reader, out);
    models::check_config(out, "config.json");
    if (out.layers.size() <= kMostLayers) architecture->build(out);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): a refusal is what is wanted
  }
  return 0;
}
