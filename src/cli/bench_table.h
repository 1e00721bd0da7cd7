// A report of schema pastkv.bench/1 as a table for people.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace pastkv::cli {

std::string bench_table(const nlohmann::ordered_json& report);

}  // namespace pastkv::cli
