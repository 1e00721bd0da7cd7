// pastkv bench: how fast models are on this machine. Each is measured in a fresh process, so that its memory is its
// own.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/progress.h"
#include "base/thread_pool.h"
#include "bench/prompt.h"
#include "bench/report.h"
#include "cli/bench_table.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/terminal.h"

namespace pastkv::cli {
namespace {

using Json = nlohmann::ordered_json;

struct BenchFlags {
  std::vector<std::filesystem::path> models;
  std::int64_t prompt_tokens = 128;
  std::int64_t generate_tokens = 64;
  int repeat = 5;
  int warmup = 1;
  std::optional<std::filesystem::path> prompt_file;
  bool in_process = false;
  bool json = false;
  bool quiet = false;
  EngineFlags engine;
};

bench::MeasureOptions measure_options(const BenchFlags& flags) {
  return {.prompt_tokens = flags.prompt_tokens,
          .generate_tokens = flags.generate_tokens,
          .repeat = flags.repeat,
          .warmup = flags.warmup,
          .prompt = flags.prompt_file ? read_text(*flags.prompt_file) : std::string(bench::default_prompt()),
          .engine = {.threads = flags.engine.threads},
          .cache_type = cache_type(flags.engine),
          .chunk = flags.engine.chunk};
}

// The child's side: results of one model as JSON on standard output.
void measure_here(const BenchFlags& flags) {
  StatusLine progress(!flags.quiet);
  const std::string name = flags.models.front().filename().string();
  const bench::ModelMeasurement measured =
      bench::measure(flags.models.front(), measure_options(flags),
                     [&](std::string_view what) { progress.show(fmt::format("{}: {}", name, what)); });
  progress.show("");
  for (const std::string& warning : measured.warnings) warn(name + ": " + warning, flags.quiet);
  fmt::print("{}\n", bench::results_json(measured).dump(-1, ' ', false, Json::error_handler_t::replace));
}

// The parent's side: this program again, for one model. Gives null when that failed; the child has said why.
Json measure_in_child(const BenchFlags& flags, const std::filesystem::path& model) {
  std::vector<std::string> arguments = {"bench",
                                        "--in-process",
                                        "--prompt-tokens=" + std::to_string(flags.prompt_tokens),
                                        "--generate-tokens=" + std::to_string(flags.generate_tokens),
                                        "--repeat=" + std::to_string(flags.repeat),
                                        "--warmup=" + std::to_string(flags.warmup),
                                        "--cache-type=" + flags.engine.cache_type,
                                        "--prefill-chunk=" + std::to_string(flags.engine.chunk)};
  if (flags.engine.threads > 0) arguments.push_back("--threads=" + std::to_string(flags.engine.threads));
  if (flags.prompt_file) arguments.push_back("--prompt-file=" + flags.prompt_file->string());
  if (flags.quiet) arguments.push_back("--quiet");
  arguments.push_back("--model=" + model.string());
  const bench::ChildResult child = bench::run_self(arguments);
  if (child.killed_by) {
    fmt::print(stderr, "error: {}: the measuring process was ended by signal {}{}\n", model.string(), *child.killed_by,
               *child.killed_by == 9 ? ", most often for lack of memory" : "");
    return nullptr;
  }
  if (child.exit_code != 0) return nullptr;
  return Json::parse(child.output);
}

void bench_all(const BenchFlags& flags) {
  warn_about_threads(flags.engine.threads, flags.quiet);
  if (flags.prompt_file) read_text(*flags.prompt_file);  // a missing file is told once, and early
  StatusLine progress(!flags.quiet);
  progress.show("measuring what the machine can do");
  const int threads = flags.engine.threads > 0 ? flags.engine.threads : allowed_cores();
  const bench::MachineLimits limits = bench::measure_limits(threads);
  progress.show("");

  Json results = Json::array();
  bool failed = false;
  for (const std::filesystem::path& model : flags.models) {
    Json of_model = measure_in_child(flags, model);
    failed |= of_model.is_null();
    for (Json& result : of_model) results.push_back(std::move(result));
  }
  bench::add_roofline(results, limits);
  if (!results.empty() || flags.json) {
    const std::string kernels(engine::best_kernel_set().name);
    const Json report = bench::report_json(bench::host(), kernels, limits, std::move(results));
    if (flags.json) {
      fmt::print("{}\n", report.dump(2, ' ', false, Json::error_handler_t::replace));
    } else {
      fmt::print("{}", bench_table(report));
    }
  }
  if (failed) throw AlreadyReported();
}

void run_bench(const BenchFlags& flags) {
  if (flags.in_process) {
    measure_here(flags);
  } else {
    bench_all(flags);
  }
}

}  // namespace

void add_bench(CLI::App& program) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App& command =
      *program.add_subcommand("bench", "how fast models are: prefill and generation apart, several models at once");
  command.add_option("-m,--model,MODEL", flags->models, "Hugging Face folders or .gguf files")->required();
  command.add_option("-p,--prompt-tokens", flags->prompt_tokens, "tokens of the prefill")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30))
      ->capture_default_str();
  command.add_option("-n,--generate-tokens", flags->generate_tokens, "tokens generated after it, each timed (0: none)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 30))
      ->capture_default_str();
  command.add_option("-r,--repeat", flags->repeat, "counted rounds of prefill and generation")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command.add_option("--warmup", flags->warmup, "rounds that do not count, after the cold first one")
      ->check(CLI::Range(0, 100000))
      ->capture_default_str();
  command.add_option("-f,--prompt-file", flags->prompt_file, "text of the prompt (default: English prose)");
  add_engine_flags(command, flags->engine);
  command.add_flag("--in-process", flags->in_process, "measure one model here and print its raw results")->group("");
  add_json(command, flags->json);
  add_quiet(command, flags->quiet);
  set_examples(command,
               "  pastkv bench model.gguf\n"
               "  pastkv bench q4.gguf q8.gguf folder -p 512 -n 128 -t 4\n"
               "  pastkv bench model.gguf --repeat 20 --json > results.json");
  command.callback([flags] { run_bench(*flags); });
}

}  // namespace pastkv::cli
