// pastkv run: one prompt, one answer.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/options.h"

namespace pastkv::cli {
namespace {

using Json = nlohmann::ordered_json;

struct RunFlags {
  std::filesystem::path model;
  std::optional<std::string> prompt;
  std::optional<std::filesystem::path> prompt_file;
  std::optional<std::string> ids;
  bool chat = false;
  std::optional<std::string> system;
  std::int64_t max_tokens = 128;
  std::int64_t context = 0;
  std::vector<std::string> stop;
  std::size_t logprobs = 0;
  bool ignore_eos = false;
  bool stats = false;
  bool json = false;
  bool quiet = false;
  EngineFlags engine;
  SamplerFlags sampler;
};

void check(const RunFlags& flags) {
  const int given = (flags.prompt ? 1 : 0) + (flags.prompt_file ? 1 : 0) + (flags.ids ? 1 : 0);
  if (given != 1) throw UsageError("give one of --prompt, --prompt-file and --ids");
  if (flags.ids && flags.chat) throw UsageError("--chat needs a text, not --ids");
  if (flags.system && !flags.chat) throw UsageError("--system needs --chat");
}

std::string prompt_text(const RunFlags& flags) {
  std::string text;
  if (flags.prompt_file) {
    text = read_text(*flags.prompt_file);
  } else {
    text = *flags.prompt == "-" ? read_text("-") : *flags.prompt;
  }
  if (text.empty()) {
    throw Error({.file = flags.prompt_file ? flags.prompt_file->string() : "",
                 .place = "prompt",
                 .reason = "is empty",
                 .remedy = "give at least one character"});
  }
  return text;
}

std::vector<std::int32_t> prompt_ids(const RunFlags& flags, const bench::OpenedModel& loaded) {
  if (flags.ids) return parse_ids(*flags.ids);
  const std::string text = prompt_text(flags);
  const text::Tokenizer& tokenizer = require_tokenizer(loaded, flags.model, "give token ids with --ids");
  if (!flags.chat) return tokenizer.encode(text, /*add_special=*/true);
  nlohmann::json messages = nlohmann::json::array();
  if (flags.system) messages.push_back({{"role", "system"}, {"content", *flags.system}});
  messages.push_back({{"role", "user"}, {"content", text}});
  return text::encode_chat(require_template(loaded, flags.model), messages, {}, tokenizer);
}

Json logprob_json(std::int32_t id, float logprob) {
  return {{"id", id}, {"logprob", logprob}};
}

Json steps_json(const std::vector<engine::GenerateStep>& steps) {
  Json out = Json::array();
  for (const engine::GenerateStep& step : steps) {
    Json entry = logprob_json(step.id, step.logprob);
    entry["top"] = Json::array();
    for (const engine::TokenLogprob& token : step.top) entry["top"].push_back(logprob_json(token.id, token.logprob));
    out.push_back(std::move(entry));
  }
  return out;
}

Json answer_json(const engine::Generated& answer, const std::vector<std::int32_t>& prompt,
                 const engine::SamplerOptions& sampler, const bench::OpenedModel& loaded) {
  Json out;
  out["prompt_ids"] = prompt;
  out["ids"] = answer.ids;
  out["text"] = answer.text;
  out["steps"] = steps_json(answer.steps);
  out["finish"] = engine::name(answer.finish);
  out["timing"] = {{"load_ms", loaded.load_ms},
                   {"prefill_ms", answer.timing.prefill_ms},
                   {"generation_ms", answer.timing.generation_ms},
                   {"time_to_first_token_ms", answer.timing.time_to_first_token_ms}};
  out["sampler"] = {{"temperature", sampler.temperature},
                    {"top_k", sampler.top_k},
                    {"top_p", sampler.top_p},
                    {"min_p", sampler.min_p},
                    {"repetition_penalty", sampler.repetition_penalty},
                    {"seed", sampler.seed}};
  out["threads"] = loaded.threads;
  return out;
}

// One line for each token, after the text.
void print_steps(const engine::Generated& answer, const bench::OpenedModel& loaded) {
  const auto spelling = [&](std::int32_t id) {
    const nlohmann::json token = loaded.tokenizer ? loaded.tokenizer->decode({{id}}, false) : std::string();
    return token.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  for (const engine::GenerateStep& step : answer.steps) {
    fmt::print("{:>7}  {:8.4f}  {}\n", step.id, step.logprob, spelling(step.id));
    for (const engine::TokenLogprob& token : step.top) {
      fmt::print("           {:>7}  {:8.4f}  {}\n", token.id, token.logprob, spelling(token.id));
    }
  }
}

void print_ids(const std::vector<std::int32_t>& ids) {
  for (std::size_t i = 0; i < ids.size(); ++i) fmt::print("{}{}", i == 0 ? "" : " ", ids[i]);
}

void run(const RunFlags& flags) {
  check(flags);
  const engine::SamplerOptions sampler = sampler_options(flags.sampler);
  const auto loaded = load(flags.model, flags.engine, flags.quiet);
  const std::vector<std::int32_t> prompt = prompt_ids(flags, *loaded);

  const std::int64_t trained = loaded->max_positions;
  const std::int64_t needed = flags.max_tokens < 0 ? trained : std::ssize(prompt) + flags.max_tokens;
  const auto session = loaded->session({.context = context_for(*loaded, flags.context, needed, flags.quiet),
                                        .cache_type = cache_type(flags.engine),
                                        .chunk = flags.engine.chunk});
  engine::GenerateOptions options;
  options.sampler = sampler;
  options.max_tokens = flags.max_tokens;
  options.stop = flags.stop;
  if (!flags.ignore_eos) options.eos_ids = loaded->eos_ids;
  options.score = flags.json;
  options.logprobs = flags.logprobs;
  const auto stream = [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  const text::Tokenizer* tokenizer = loaded->tokenizer ? &*loaded->tokenizer : nullptr;
  const engine::Generated answer =
      engine::generate(*session, prompt, tokenizer, options, flags.json ? nullptr : std::function(stream));
  if (flags.json) {
    const Json out = answer_json(answer, prompt, sampler, *loaded);
    fmt::print("{}\n", out.dump(-1, ' ', false, Json::error_handler_t::replace));
  } else {
    if (tokenizer == nullptr) print_ids(answer.ids);
    fmt::print("\n");
    if (flags.logprobs > 0) print_steps(answer, *loaded);
  }
  std::fflush(stdout);
  if (flags.stats) fmt::print(stderr, "{}\n", stats_line(answer, prompt.size()));
}

}  // namespace

void add_run(CLI::App& program) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App& command = *program.add_subcommand("run", "continue a text, or answer one question with --chat");
  add_model(command, flags->model);
  command.add_option("-p,--prompt", flags->prompt, "the text ('-': read it from standard input)");
  command.add_option("-f,--prompt-file", flags->prompt_file, "read the text from a file");
  command.add_option("--ids", flags->ids, "token ids instead of a text: 1,2,3");
  command.add_flag("--chat", flags->chat, "put the text through the model's own chat template");
  command.add_option("--system", flags->system, "the system message, with --chat");
  add_max_tokens(command, flags->max_tokens);
  command.add_option("--stop", flags->stop, "end the answer before this text; may be given again")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_flag("--ignore-eos", flags->ignore_eos, "do not end at an end-of-sequence token");
  add_sampler_flags(command, flags->sampler);
  add_context(command, flags->context, "what prompt and answer need");
  add_engine_flags(command, flags->engine);
  command.add_option("--logprobs", flags->logprobs, "report this many of the likeliest tokens at each step")
      ->check(CLI::Range(0, 1000));
  command.add_flag("--stats", flags->stats, "tell on standard error how fast it was");
  add_json(command, flags->json);
  add_quiet(command, flags->quiet);
  set_examples(command,
               "  pastkv run model.gguf -p 'Once upon a time' -n 64\n"
               "  pastkv run model.gguf --chat -p 'What is the capital of France?' --stats\n"
               "  pastkv run model.gguf -p 'A list of colours:' --temp 0.8 --top-p 0.95 --seed 7 --stop END\n"
               "  pastkv run folder --ids 1,2,3 --logprobs 5 --json\n"
               "  cat question.txt | pastkv run model.gguf --chat -p -");
  command.callback([flags] { run(*flags); });
}

}  // namespace pastkv::cli
