// pastkv inspect: what a model is, and whether it runs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/command.h"
#include "cli/description.h"
#include "cli/options.h"
#include "graph/text.h"

namespace pastkv::cli {
namespace {

using Json = nlohmann::ordered_json;

struct InspectFlags {
  std::filesystem::path model;
  std::int64_t context = 0;
  std::int64_t prompt_tokens = 128;
  bool graph = false;
  bool rope = false;
  bool json = false;
  bool quiet = false;
  EngineFlags engine;
};

std::string_view rule_name(graph::RopeRule rule) {
  switch (rule) {
    case graph::RopeRule::fixed:
      return "fixed";
    case graph::RopeRule::two_tables:
      return "two_tables";
    case graph::RopeRule::dynamic:
      return "dynamic";
  }
  return "fixed";
}

// The frequencies each layer uses at a total length of `context` tokens.
void print_rope(const models::Model& model, std::int64_t context, bool json) {
  Json out = Json::array();
  for (std::size_t i = 0; i < model.config.layers.size(); ++i) {
    const graph::RopeAttributes& rope = model.config.ropes[static_cast<std::size_t>(model.config.layers[i].rope)];
    const graph::RopeTable table = rope.frequencies.at(context);
    if (json) {
      out.push_back({{"layer", i},
                     {"rule", rule_name(rope.frequencies.rule)},
                     {"rotary_dim", rope.rotary_dim},
                     {"scale", table.scale},
                     {"inverse_frequencies", table.inverse_frequencies}});
    } else {
      fmt::print("layer {}: {}, {} channels, scale {}: {}\n", i, rule_name(rope.frequencies.rule), rope.rotary_dim,
                 table.scale, fmt::join(table.inverse_frequencies, " "));
    }
  }
  if (json) fmt::print("{}\n", Json{{"name", model.name}, {"context", context}, {"rope", out}}.dump());
}

void print_failure(const std::filesystem::path& path, const char* reason) {
  const Json out = {{"name", path.filename().string()}, {"runs", false}, {"reason", reason}};
  fmt::print("{}\n", out.dump(-1, ' ', false, Json::error_handler_t::replace));
}

// Says what it found, and whether it runs.
void print(const Description& description, bool json) {
  if (json) {
    fmt::print("{}\n", to_json(description).dump(-1, ' ', false, Json::error_handler_t::replace));
  } else {
    fmt::print("{}", to_text(description));
  }
  if (!description.cannot_run.empty()) {
    std::fflush(stdout);
    fmt::print(stderr, "error: {}\n", description.cannot_run);
    throw AlreadyReported();
  }
}

void inspect_imported(const InspectFlags& flags, bench::ModelForm form) {
  const targets::ImportedModel model = bench::import_model(flags.model, form);
  if (flags.rope) throw UsageError("--rope needs a Hugging Face folder or a .gguf file: in a graph they are constants");
  if (flags.graph) {
    fmt::print("{}", graph::to_text(model.graph));
    return;
  }
  print(describe(model, flags.context, flags.prompt_tokens, cache_type(flags.engine)), flags.json);
}

void inspect(const InspectFlags& flags) {
  const bench::ModelForm form = bench::form_of(flags.model);
  if (is_imported(form)) return inspect_imported(flags, form);
  const models::Model model = models::open_model(flags.model);
  for (const std::string& warning : model.warnings) warn(warning, flags.quiet);
  if (flags.graph) {
    const std::string text = graph::to_text(model.graph);
    fmt::print("{}", flags.json ? Json{{"name", model.name}, {"graph", text}}.dump() + "\n" : text);
    return;
  }
  if (flags.rope) {
    print_rope(model, flags.context > 0 ? flags.context : model.config.max_positions, flags.json);
    return;
  }
  print(describe(model, flags.context, flags.prompt_tokens, cache_type(flags.engine)), flags.json);
}

void inspect_or_say_why_not(const InspectFlags& flags) {
  try {
    inspect(flags);
  } catch (const Error& error) {
    if (flags.json) print_failure(flags.model, error.what());
    throw;
  }
}

}  // namespace

void add_inspect(CLI::App& program) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App& command = *program.add_subcommand("inspect", "what a model is: sizes, states, variants with their inputs");
  add_model(command, flags->model);
  add_context(command, flags->context, "what the model was trained for");
  command
      .add_option("--prompt-tokens", flags->prompt_tokens,
                  "query length of the prefill variant, past length of the generation variant")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->capture_default_str();
  command.add_option("--cache-type", flags->engine.cache_type, "number type of the cache: f32, f16, bf16, q8_0")
      ->check(CLI::IsMember({"f32", "f16", "bf16", "q8_0"}))
      ->capture_default_str();
  command.add_flag("--graph", flags->graph, "print the graph instead");
  command.add_flag("--rope", flags->rope, "print the rotary frequencies of each layer instead");
  add_json(command, flags->json);
  add_quiet(command, flags->quiet);
  set_examples(command,
               "  pastkv inspect model.gguf\n"
               "  pastkv inspect folder --context 32768 --cache-type q8_0\n"
               "  pastkv inspect model.gguf --json\n"
               "  pastkv inspect folder --graph");
  command.callback([flags] { inspect_or_say_why_not(*flags); });
}

}  // namespace pastkv::cli
