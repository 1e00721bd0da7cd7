// pastkv chat: a conversation. The cache lives as long as it does; only what is new is computed in each turn.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/terminal.h"

namespace pastkv::cli {
namespace {

constexpr std::int64_t kDefaultContext = 8192;

struct ChatFlags {
  std::filesystem::path model;
  std::optional<std::string> system;
  std::int64_t max_tokens = -1;
  std::int64_t context = 0;
  bool stats = false;
  bool quiet = false;
  EngineFlags engine;
  SamplerFlags sampler;
};

constexpr const char* kHelp =
    "/clear   start a new conversation\n"
    "/exit    leave (Ctrl-D too)\n"
    "Ctrl-C   ends an answer early\n";

class Conversation {
 public:
  Conversation(const ChatFlags& flags, const bench::OpenedModel& loaded, engine::GenerateOptions options)
      : flags_(flags),
        template_(require_template(loaded, flags.model)),
        tokenizer_(require_tokenizer(loaded, flags.model, "use a model with one")),
        options_(std::move(options)),
        session_(loaded.session({.context = context_for(loaded, flags.context, kDefaultContext, flags.quiet),
                                 .cache_type = cache_type(flags.engine),
                                 .chunk = flags.engine.chunk})) {
    clear();
  }

  void clear() {
    messages_ = nlohmann::json::array();
    if (flags_.system) messages_.push_back({{"role", "system"}, {"content", *flags_.system}});
  }

  // Streams the answer. The question is forgotten again when it cannot be answered.
  void ask(const std::string& question) {
    messages_.push_back({{"role", "user"}, {"content", question}});
    try {
      answer();
    } catch (...) {
      messages_.erase(messages_.end() - 1);
      throw;
    }
  }

 private:
  void answer() {
    const std::vector<std::int32_t> prompt = text::encode_chat(template_, messages_, {}, tokenizer_);
    if (std::ssize(prompt) >= session_->context()) {
      throw Error({.file = {},
                   .place = "conversation",
                   .reason = fmt::format("has grown to {} tokens, and the context holds {}", prompt.size(),
                                         session_->context()),
                   .remedy = "/clear starts a new one; --context makes room for longer ones"});
    }
    const Interruptible interruptible;
    options_.cancel = interruptible.flag();
    const engine::Generated reply =
        engine::generate(*session_, prompt, &tokenizer_, options_, [](std::string_view text) {
          std::fwrite(text.data(), 1, text.size(), stdout);
          std::fflush(stdout);
        });
    fmt::print("\n");
    std::fflush(stdout);
    if (reply.finish == engine::Finish::length && flags_.max_tokens < 0) {
      warn(fmt::format("the answer ends here: the context of {} tokens is full; /clear starts a new conversation",
                       session_->context()),
           flags_.quiet);
    }
    if (flags_.stats) fmt::print(stderr, "{}\n", stats_line(reply, prompt.size()));
    messages_.push_back({{"role", "assistant"}, {"content", reply.text}});
  }

  const ChatFlags& flags_;
  text::ChatTemplate template_;
  const text::Tokenizer& tokenizer_;
  engine::GenerateOptions options_;
  std::unique_ptr<engine::Session> session_;
  nlohmann::json messages_;
};

bool read_line(bool interactive, std::string& line) {
  if (interactive) {
    fmt::print(stderr, "> ");
    std::fflush(stderr);
  }
  if (std::getline(std::cin, line)) return true;
  if (interactive) fmt::print(stderr, "\n");
  return false;
}

void chat(const ChatFlags& flags) {
  engine::GenerateOptions options;
  options.sampler = sampler_options(flags.sampler);
  options.max_tokens = flags.max_tokens;
  const auto loaded = load(flags.model, flags.engine, flags.quiet);
  options.eos_ids = loaded->eos_ids;
  Conversation conversation(flags, *loaded, std::move(options));

  const bool interactive = is_terminal(STDIN_FILENO);
  if (interactive && !flags.quiet) fmt::print(stderr, "{}: /help lists the commands\n", loaded->name);
  for (std::string line; read_line(interactive, line);) {
    if (line.empty()) continue;
    if (line == "/exit" || line == "/quit") break;
    if (line == "/clear") {
      conversation.clear();
    } else if (line == "/help") {
      fmt::print(stderr, "{}", kHelp);
    } else {
      try {
        conversation.ask(line);
      } catch (const Error& error) {
        if (!interactive) throw;
        fmt::print(stderr, "error: {}\n", error.what());
      }
    }
  }
}

}  // namespace

void add_chat(CLI::App& program) {
  auto flags = std::make_shared<ChatFlags>();
  flags->sampler.options.temperature = 0.7F;
  flags->sampler.options.min_p = 0.05F;
  CLI::App& command = *program.add_subcommand("chat", "talk with the model; the cache is kept between turns");
  add_model(command, flags->model);
  command.add_option("--system", flags->system, "the system message");
  add_max_tokens(command, flags->max_tokens);
  add_sampler_flags(command, flags->sampler);
  add_context(command, flags->context, "8192, or what the model was trained for if that is less");
  add_engine_flags(command, flags->engine);
  command.add_flag("--stats", flags->stats, "tell on standard error how fast each answer was");
  add_quiet(command, flags->quiet);
  set_examples(command,
               "  pastkv chat model.gguf\n"
               "  pastkv chat model.gguf --system 'Answer in one sentence.' --temp 0\n"
               "  printf 'Hello!\\nAnd in French?\\n' | pastkv chat model.gguf");
  command.callback([flags] { chat(*flags); });
}

}  // namespace pastkv::cli
