// JSON from files that nobody has checked.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace pastkv::formats {

// A JSON file whose top level is an object; Error names file and byte. Refuses files over 64 MiB and depth over 256.
nlohmann::json read_json_object(const std::filesystem::path& file);

// What a parser objects to, without its own preamble and cut to a readable length.
std::string json_fault(const nlohmann::json::exception& fault);

}  // namespace pastkv::formats
