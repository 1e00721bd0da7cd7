// pastkv verify: whether a model gives the logits of another, or of the one it was made of.
#include <fmt/format.h>

#include <cstdio>
#include <optional>

#include "base/error.h"
#include "base/progress.h"
#include "bench/model_hash.h"
#include "bench/prompt.h"
#include "bench/source_note.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/verification.h"

namespace pastkv::cli {
namespace {

struct VerifyFlags {
  std::filesystem::path model;
  std::optional<std::filesystem::path> reference;
  std::optional<std::filesystem::path> text;
  std::int64_t tokens = 64;
  std::int64_t generate = 16;
  std::optional<double> largest;
  std::optional<double> kl;
  std::optional<double> agreement;
  bool interpret = false;
  int threads = 0;
  bool json = false;
  bool quiet = false;
};

// The model that `flags.model` was made of, by the note beside it.
bench::SourceNote source_of(const VerifyFlags& flags) {
  const auto note = bench::find_source_note(flags.model);
  const std::string remedy = "give it: pastkv verify A B";
  if (!note) {
    throw Error({.file = flags.model.string(),
                 .place = {},
                 .reason = "does not say which model it was made of",
                 .remedy = remedy});
  }
  if (!std::filesystem::exists(note->source)) {
    throw Error({.file = flags.model.string(),
                 .place = {},
                 .reason = fmt::format("was made of {}, which is not there", note->source.string()),
                 .remedy = remedy});
  }
  return *note;
}

std::unique_ptr<bench::OpenedModel> open(const std::filesystem::path& path, const VerifyFlags& flags) {
  auto model = std::make_unique<bench::OpenedModel>(
      path, bench::OpenOptions{.threads = flags.threads, .interpret = flags.interpret});
  for (const std::string& warning : model->warnings) warn(warning, flags.quiet);
  return model;
}

std::unique_ptr<bench::OpenedModel> open_source(const VerifyFlags& flags) {
  const bench::SourceNote note = source_of(flags);
  auto source = open(note.source, flags);
  if (source->model() != nullptr && bench::model_hash(*source->model()) != note.hash) {
    warn(fmt::format("{} has changed since {} was made of it", note.source.string(), flags.model.string()),
         flags.quiet);
  }
  return source;
}

void run_verify(const VerifyFlags& flags) {
  warn_about_threads(flags.threads, flags.quiet);
  const std::string text = flags.text ? read_text(*flags.text) : std::string(bench::default_prompt());
  const auto model = open(flags.model, flags);
  const auto reference = flags.reference ? open(*flags.reference, flags) : open_source(flags);
  VerifyOptions options{
      .text = text, .tokens = flags.tokens, .generate = flags.generate, .tolerance = tolerance_for(*model, *reference)};
  if (flags.largest) options.tolerance.largest = *flags.largest;
  if (flags.kl) options.tolerance.kl = *flags.kl;
  if (flags.agreement) options.tolerance.agreement = *flags.agreement / 100;
  StatusLine progress(!flags.quiet);
  const Verification verification = verify(*model, *reference, options, [&](std::int64_t done, std::int64_t of) {
    progress.show(fmt::format("{} of {} tokens compared", done, of));
  });
  progress.show("");
  if (!verification.has_text) warn("no model has a tokenizer: the bytes of the text stand for ids", flags.quiet);
  if (flags.json) {
    fmt::print("{}\n", to_json(verification).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}", to_text(verification));
  }
  if (!verification.faults.empty()) throw AlreadyReported();
}

}  // namespace

void add_verify(CLI::App& program) {
  auto flags = std::make_shared<VerifyFlags>();
  CLI::App& command =
      *program.add_subcommand("verify", "compare the logits of two models, or of one with what it was made of");
  add_model(command, flags->model);
  command.add_option("-r,--reference,REFERENCE", flags->reference,
                     "the model that is right (default: what MODEL was converted from)");
  command.add_option("-f,--text,--file", flags->text, "the text ('-': standard input; default: a built-in one)");
  command.add_option("-n,--tokens", flags->tokens, "tokens of the text that are compared")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{1} << 24))
      ->capture_default_str();
  command.add_option("--generate", flags->generate, "how many of them one at a time, on the cache")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24))
      ->capture_default_str();
  command
      .add_option("--max-difference", flags->largest,
                  "largest difference allowed, over the standard deviation (0: any; default: by the weights' type)")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--max-kl", flags->kl, "mean KL divergence allowed, in nats")->check(CLI::NonNegativeNumber);
  command
      .add_option("--min-agreement", flags->agreement, "percent of positions whose likeliest token must be the same")
      ->check(CLI::Range(0.0, 100.0));
  command.add_flag("--interpret", flags->interpret,
                   "run every model in the reference interpreter: slow, and no activation is rounded");
  add_threads(command, flags->threads);
  add_json(command, flags->json);
  add_quiet(command, flags->quiet);
  set_examples(command,
               "  pastkv verify converted.gguf\n"
               "  pastkv verify model.mlpackage folder\n"
               "  pastkv verify model.q4_0.gguf model.f16.gguf --text wikitext-2-test.txt --tokens 512\n"
               "  pastkv verify onnx_folder folder --max-difference 1e-3 --json");
  command.callback([flags] { run_verify(*flags); });
}

}  // namespace pastkv::cli
