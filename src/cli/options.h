// Options that several commands share, and what they turn into. Short names are those that users of llama.cpp type.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/opened_model.h"
#include "engine/sampler.h"
#include "tensor/dtype.h"

namespace pastkv::cli {

struct EngineFlags {
  int threads = 0;
  std::string cache_type = "f16";
  std::int64_t chunk = 512;
};

struct SamplerFlags {
  engine::SamplerOptions options;
  std::string seed;  // a number; "-1" or nothing: random
};

void add_model(CLI::App& command, std::filesystem::path& model);
void add_engine_flags(CLI::App& command, EngineFlags& flags);
void add_threads(CLI::App& command, int& threads);
void add_context(CLI::App& command, std::int64_t& context, const std::string& unless_given);
void add_sampler_flags(CLI::App& command, SamplerFlags& flags);
void add_max_tokens(CLI::App& command, std::int64_t& max_tokens);
void add_quiet(CLI::App& command, bool& quiet);
void add_json(CLI::App& command, bool& json);
void set_examples(CLI::App& command, const std::string& examples);

// Without a seed, a random one when it matters. Throws UsageError for values out of range.
engine::SamplerOptions sampler_options(const SamplerFlags& flags);
tensor::DType cache_type(const EngineFlags& flags);

// "1,2,3", "1 2 3" or "[1, 2, 3]". Throws UsageError.
std::vector<std::int32_t> parse_ids(const std::string& text);

// A whole file; "-" is standard input. Throws Error.
std::string read_text(const std::filesystem::path& path);

// A model ready to be asked. Warnings go to standard error unless `quiet`.
std::unique_ptr<bench::OpenedModel> load(const std::filesystem::path& path, const EngineFlags& flags, bool quiet);
void warn(std::string_view text, bool quiet);
void warn_about_threads(int threads, bool quiet);

}  // namespace pastkv::cli
