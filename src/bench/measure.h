// Measures one model: prefill and generation apart, each as a variant with its label, shapes and raw samples.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/process.h"
#include "engine/executor.h"
#include "graph/variant.h"
#include "tensor/dtype.h"

namespace pastkv::bench {

struct MeasureOptions {
  std::int64_t prompt_tokens = 128;
  std::int64_t generate_tokens = 64;  // 0: no generation
  int repeat = 5;
  int warmup = 1;      // rounds run before the counted ones, after the cold first calls
  std::string prompt;  // text; repeated when it has too few tokens
  engine::EngineOptions engine;
  tensor::DType cache_type = tensor::DType::f16;
  std::int64_t chunk = 512;
};

struct Measured {
  std::string label;
  graph::Variant variant;  // generation: the first counted call
  std::vector<graph::TensorInfo> inputs;
  std::vector<std::int64_t> samples_ns;   // of each counted call: a prefill, or one token
  std::vector<double> tokens_per_second;  // of each round
  double cold_ms = 0;                     // the very first call
  ProcessMemory memory;                   // peak so far
  double flops = 0;                       // of a call; of the middle one for generation
  double bytes = 0;                       // that it must read or write at least, likewise
};

struct ModelMeasurement {
  std::string name;
  std::string architecture;
  std::uint64_t parameters = 0;
  std::uint64_t file_bytes = 0;
  std::string hash;
  std::string kernels;
  bool int8_arithmetic = false;  // most weights are multiplied as 8-bit integers
  tensor::DType cache_type = tensor::DType::f16;
  int threads = 0;
  double load_ms = 0;             // from the path to ready for the first call
  std::uint64_t state_bytes = 0;  // allocated
  std::vector<Measured> variants;
  std::vector<std::string> warnings;
};

// `progress` is told what runs now; may be empty. Throws Error as opening and running a model do.
ModelMeasurement measure(const std::filesystem::path& model, const MeasureOptions& options,
                         const std::function<void(std::string_view)>& progress);

}  // namespace pastkv::bench
