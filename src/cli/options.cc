#include "cli/options.h"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>
#include <system_error>

#include "base/error.h"
#include "base/thread_pool.h"
#include "cli/command.h"

namespace pastkv::cli {

void add_model(CLI::App& command, std::filesystem::path& model) {
  command.add_option("-m,--model,MODEL", model, "a Hugging Face folder, a .gguf file, an ONNX model or an .mlpackage")
      ->required();
}

void add_threads(CLI::App& command, int& threads) {
  command.add_option("-t,--threads", threads, "threads (default: the physical cores allowed to the process)")
      ->check(CLI::Range(1, 4096));
}

void add_engine_flags(CLI::App& command, EngineFlags& flags) {
  add_threads(command, flags.threads);
  command.add_option("--cache-type", flags.cache_type, "number type of the cache: f32, f16, bf16, q8_0")
      ->check(CLI::IsMember({"f32", "f16", "bf16", "q8_0"}))
      ->capture_default_str();
  command.add_option("--prefill-chunk", flags.chunk, "most prompt tokens computed at once")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20))
      ->capture_default_str();
}

void add_context(CLI::App& command, std::int64_t& context, const std::string& unless_given) {
  command.add_option("-c,--context,--ctx-size", context, "tokens that the cache holds (default: " + unless_given + ")")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
}

namespace {

std::optional<std::uint64_t> parse_seed(const std::string& text) {
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(seed) : std::nullopt;
}

std::string seed_fault(std::string& text) {
  if (text == "-1" || parse_seed(text)) return {};
  return "wanted a number from 0 to 18446744073709551615, or -1";
}

}  // namespace

void add_sampler_flags(CLI::App& command, SamplerFlags& flags) {
  const auto group = "Sampling";
  engine::SamplerOptions& options = flags.options;
  command.add_option("--temp,--temperature", options.temperature, "0: always the likeliest token")
      ->capture_default_str()
      ->group(group);
  command.add_option("--top-k", options.top_k, "only the k likeliest tokens (0: off)")
      ->capture_default_str()
      ->group(group);
  command.add_option("--top-p", options.top_p, "only the fewest tokens whose probabilities sum to p (1: off)")
      ->capture_default_str()
      ->group(group);
  command.add_option("--min-p", options.min_p, "only tokens at least p times as likely as the likeliest (0: off)")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--repeat-penalty,--repetition-penalty", options.repetition_penalty,
                  "makes tokens of prompt and answer less likely (1: off)")
      ->capture_default_str()
      ->group(group);
  command.add_option("-s,--seed", flags.seed, "the same seed gives the same answer (default, and -1: random)")
      ->check(CLI::Validator(seed_fault, "", "seed"))
      ->group(group);
}

void add_max_tokens(CLI::App& command, std::int64_t& max_tokens) {
  command.add_option("-n,--max-tokens,--predict", max_tokens, "most tokens of the answer (-1: until it ends)")
      ->check(CLI::Range(std::int64_t{-1}, std::int64_t{1} << 40))
      ->capture_default_str();
}

void add_quiet(CLI::App& command, bool& quiet) {
  command.add_flag("-q,--quiet", quiet, "no progress and no warnings on standard error");
}

void add_json(CLI::App& command, bool& json) {
  command.add_flag("--json", json, "print one JSON object instead");
}

void set_examples(CLI::App& command, const std::string& examples) {
  command.footer("Examples:\n" + examples);
}

engine::SamplerOptions sampler_options(const SamplerFlags& flags) {
  engine::SamplerOptions options = flags.options;
  try {
    engine::check(options);
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
  if (const auto seed = parse_seed(flags.seed)) {
    options.seed = *seed;
  } else if (options.temperature > 0) {
    options.seed = std::random_device{}();
  }
  return options;
}

tensor::DType cache_type(const EngineFlags& flags) {
  return tensor::dtype_from_name(flags.cache_type).value_or(tensor::DType::f16);
}

std::vector<std::int32_t> parse_ids(const std::string& text) {
  std::vector<std::int32_t> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    if (std::strchr(" ,[]\t\r\n", *at) != nullptr) {
      ++at;
      continue;
    }
    std::int32_t id = -1;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc() || id < 0) {
      const std::string word(at, std::find_if(at, end, [](char c) { return c == ',' || c == ' '; }));
      throw UsageError("'" + word + "' is no token id; give numbers like 1,2,3");
    }
    ids.push_back(id);
    at = next;
  }
  return ids;
}

std::string read_text(const std::filesystem::path& path) {
  std::ostringstream text;
  if (path == "-") {
    text << std::cin.rdbuf();
    return text.str();
  }
  std::error_code code;
  if (std::filesystem::is_directory(path, code)) {
    throw Error({.file = path.string(), .place = {}, .reason = "is a folder", .remedy = "give a text file"});
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw Error({.file = path.string(), .place = {}, .reason = std::strerror(errno), .remedy = {}});
  }
  text << file.rdbuf();
  return text.str();
}

std::unique_ptr<bench::OpenedModel> load(const std::filesystem::path& path, const EngineFlags& flags, bool quiet) {
  warn_about_threads(flags.threads, quiet);
  auto loaded = std::make_unique<bench::OpenedModel>(path, bench::OpenOptions{.threads = flags.threads});
  for (const std::string& warning : loaded->warnings) warn(warning, quiet);
  return loaded;
}

void warn(std::string_view text, bool quiet) {
  if (!quiet) fmt::print(stderr, "warning: {}\n", text);
}

void warn_about_threads(int threads, bool quiet) {
  const int allowed = allowed_processors();
  if (threads > allowed) {
    warn(fmt::format("{} threads were asked for, and this process may use {} processor{}", threads, allowed,
                     allowed == 1 ? "" : "s"),
         quiet);
  }
}

}  // namespace pastkv::cli
