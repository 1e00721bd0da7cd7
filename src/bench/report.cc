#include "bench/report.h"

#include <algorithm>

#include "base/version.h"

namespace pastkv::bench {
namespace {

using Json = nlohmann::ordered_json;

Json inputs_json(const std::vector<graph::TensorInfo>& inputs) {
  Json out = Json::array();
  for (const graph::TensorInfo& input : inputs) {
    out.push_back({{"name", input.name}, {"dtype", tensor::name(input.dtype)}, {"shape", input.shape}});
  }
  return out;
}

Json latency_json(const std::vector<std::int64_t>& samples_ns) {
  std::vector<double> ms;
  ms.reserve(samples_ns.size());
  for (const std::int64_t ns : samples_ns) ms.push_back(static_cast<double>(ns) / 1e6);
  Json out = to_json(summarize(ms));
  out["p50"] = percentile(ms, 0.50);
  out["p90"] = percentile(ms, 0.90);
  out["p95"] = percentile(ms, 0.95);
  out["p99"] = percentile(ms, 0.99);
  out["samples_ns"] = samples_ns;
  return out;
}

Json roofline_json(const ModelMeasurement& model, const Measured& variant) {
  const bool generation = variant.variant.role == graph::Role::generation;
  return {{"limit", generation ? "bandwidth" : "compute"},
          {"fraction", nullptr},
          {"arithmetic", model.int8_arithmetic ? "int8" : "f32"},
          {"flops_per_call", variant.flops},
          {"bytes_per_call", variant.bytes}};
}

Json result_json(const ModelMeasurement& model, const Measured& measured) {
  Json out;
  out["label"] = measured.label;
  out["model"] = {{"name", model.name},
                  {"architecture", model.architecture},
                  {"parameters", model.parameters},
                  {"hash", model.hash},
                  {"file_bytes", model.file_bytes}};
  out["variant"] = {{"role", graph::name(measured.variant.role)},
                    {"batch", measured.variant.sizes.batch},
                    {"query_length", measured.variant.sizes.query},
                    {"past_length", measured.variant.sizes.past},
                    {"inputs", inputs_json(measured.inputs)}};
  out["runtime"] = {{"name", "pastkv"}, {"version", version()}, {"kernels", model.kernels}};
  out["threads"] = model.threads;
  out["cache_type"] = tensor::name(model.cache_type);
  out["metrics"] = {{"tokens_per_second", to_json(summarize(measured.tokens_per_second))},
                    {"latency_ms", latency_json(measured.samples_ns)},
                    {"cold_ms", measured.cold_ms},
                    {"load_ms", model.load_ms}};
  out["peak_rss_bytes"] = measured.memory.peak_rss_bytes;
  out["rss_anon_bytes"] = measured.memory.anonymous_bytes;
  out["rss_file_bytes"] = measured.memory.file_bytes;
  out["state_bytes"] = model.state_bytes;
  out["roofline"] = roofline_json(model, measured);
  return out;
}

}  // namespace

Json to_json(const Summary& summary) {
  return {{"median", summary.median},
          {"mean", summary.mean},
          {"min", summary.min},
          {"stddev", summary.stddev ? Json(*summary.stddev) : Json(nullptr)},
          {"ci95", {summary.ci95_low, summary.ci95_high}}};
}

Json results_json(const ModelMeasurement& model) {
  Json out = Json::array();
  for (const Measured& variant : model.variants) out.push_back(result_json(model, variant));
  return out;
}

void add_roofline(Json& results, const MachineLimits& limits) {
  for (Json& result : results) {
    Json& roofline = result["roofline"];
    const double seconds = result["metrics"]["latency_ms"]["median"].get<double>() / 1e3;
    const bool generation = roofline["limit"] == "bandwidth";
    const double work = roofline[generation ? "bytes_per_call" : "flops_per_call"].get<double>();
    const double limit = generation                         ? limits.read_bytes_per_second
                         : roofline["arithmetic"] == "int8" ? limits.int8_ops_per_second
                                                            : limits.f32_ops_per_second;
    if (seconds > 0 && limit > 0) roofline["fraction"] = work / seconds / limit;
  }
}

Json report_json(const Host& host, const std::string& kernels, const MachineLimits& limits, Json results) {
  Json out;
  out["schema"] = "pastkv.bench/1";
  out["host"] = {{"processor", host.processor},
                 {"cores", host.cores},
                 {"allowed", host.allowed},
                 {"kernels", kernels},
                 {"memory_bytes", host.memory_bytes},
                 {"os", host.os},
                 {"compiler", host.compiler},
                 {"read_bytes_per_second", limits.read_bytes_per_second},
                 {"f32_ops_per_second", limits.f32_ops_per_second},
                 {"int8_ops_per_second", limits.int8_ops_per_second},
                 {"peak_loops", limits.loops}};
  out["results"] = std::move(results);
  return out;
}

}  // namespace pastkv::bench
