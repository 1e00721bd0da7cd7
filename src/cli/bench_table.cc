#include "cli/bench_table.h"

#include <fmt/format.h>

#include "cli/table.h"
#include "cli/terminal.h"

namespace pastkv::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string rate_text(double rate) {
  return fmt::format("{:.{}f}", rate, rate < 99.95 ? 1 : 0);
}

// "[1, 128] past 0": the shape of the ids and what was in the cache before the (first) call.
std::string shape_cell(const Json& variant) {
  return fmt::format("[{}, {}] past {}", variant["batch"].get<int>(), variant["query_length"].get<std::int64_t>(),
                     variant["past_length"].get<std::int64_t>());
}

std::string megabytes(const Json& bytes) {
  const double mb = bytes.get<double>() / 1e6;
  return fmt::format("{:.{}f}", mb, mb < 9.95 ? 1 : 0);
}

std::string limit_cell(const Json& roofline) {
  if (roofline["fraction"].is_null()) return "";
  const std::string limit = roofline["limit"] == "compute" ? roofline["arithmetic"].get<std::string>() : "memory";
  return fmt::format("{:.0f} % {}", roofline["fraction"].get<double>() * 100, limit);
}

std::vector<std::string> row(const Json& result) {
  const Json& rate = result["metrics"]["tokens_per_second"];
  const Json& latency = result["metrics"]["latency_ms"];
  return {result["label"],
          shape_cell(result["variant"]),
          rate_text(rate["median"]),
          fmt::format("{} to {}", rate_text(rate["ci95"][0]), rate_text(rate["ci95"][1])),
          milliseconds_text(latency["median"]),
          milliseconds_text(result["metrics"]["cold_ms"]),
          megabytes(result["peak_rss_bytes"]),
          megabytes(result["state_bytes"]),
          limit_cell(result["roofline"])};
}

std::string host_text(const Json& report) {
  const Json& host = report["host"];
  std::string out = fmt::format("{}, {} cores, {} processors allowed, {}, {}\n", host["processor"].get<std::string>(),
                                host["cores"].get<int>(), host["allowed"].get<int>(),
                                bytes_text(host["memory_bytes"].get<double>()), host["os"].get<std::string>());
  if (!report["results"].empty()) {
    const Json& first = report["results"][0];
    out += fmt::format("pastkv {}, {} kernels, {} threads, cache {}\n", first["runtime"]["version"].get<std::string>(),
                       first["runtime"]["kernels"].get<std::string>(), first["threads"].get<int>(),
                       first["cache_type"].get<std::string>());
  }
  return out;
}

std::string limits_text(const Json& host) {
  return fmt::format(
      "limit: the share of what this machine does at most, measured just now: memory read at {}/s, f32 {}FLOP/s, "
      "int8 {}OP/s\n",
      bytes_text(host["read_bytes_per_second"].get<double>()), count_text(host["f32_ops_per_second"].get<double>()),
      count_text(host["int8_ops_per_second"].get<double>()));
}

}  // namespace

std::string bench_table(const Json& report) {
  Table table({{"label"},
               {"input"},
               {"tok/s", Align::right},
               {"95 % interval", Align::right},
               {"latency", Align::right},
               {"cold", Align::right},
               {"peak MB", Align::right},
               {"state MB", Align::right},
               {"limit", Align::right}});
  for (const Json& result : report["results"]) table.add(row(result));
  return host_text(report) + "\n" + table.text() + "\n" + limits_text(report["host"]);
}

}  // namespace pastkv::cli
