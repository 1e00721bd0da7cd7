// Results as JSON, schema pastkv.bench/1, and what a table needs of them.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "bench/host.h"
#include "bench/limits.h"
#include "bench/measure.h"
#include "bench/statistics.h"

namespace pastkv::bench {

// {"median","mean","min","stddev","ci95":[low,high]}; stddev is null for a single sample.
nlohmann::ordered_json to_json(const Summary& summary);

// One entry of "results" for each variant, all but the roofline's fraction, which needs the machine's limits.
nlohmann::ordered_json results_json(const ModelMeasurement& model);

// Fills in "roofline"."fraction" of each result: what was achieved of what the machine can do. Generation is held
// against the memory bandwidth, prefill against the arithmetic of the kind its weights are multiplied in.
void add_roofline(nlohmann::ordered_json& results, const MachineLimits& limits);

nlohmann::ordered_json report_json(const Host& host, const std::string& kernels, const MachineLimits& limits,
                                   nlohmann::ordered_json results);

}  // namespace pastkv::bench
