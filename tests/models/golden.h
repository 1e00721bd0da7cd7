// The golden models under tests/data/models, and what an independent reference computed for them. How they were made
// is written in tests/tools/make_model_golden.py.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace pastkv::test {

struct Golden {
  std::string name;
  std::vector<std::filesystem::path> models;  // the same model in each spelling: Hugging Face folder, .gguf
  std::int64_t vocab = 0;
  std::vector<std::int32_t> ids;
  std::vector<float> logits;  // [ids, vocab]: one run over all ids
  std::int64_t prefill = 0;   // ids before the steps
  // [ids - prefill, vocab]: the last row after each further id, cached or, when `from_scratch`, run from scratch
  std::vector<float> step_logits;
  bool from_scratch = false;  // rope tables change with the length: only the last row of a run is comparable

  std::span<const float> row(std::int64_t i) const;   // of logits
  std::span<const float> step(std::int64_t i) const;  // of step_logits
};

// Every golden model's name, sorted.
std::vector<std::string> golden_names();

Golden load_golden(const std::string& name);

// The largest difference over the standard deviation of `wanted`; infinity when the sizes differ or one is no number.
double relative_difference(std::span<const float> got, std::span<const float> wanted);

}  // namespace pastkv::test
