// pastkv eval: how well the model predicts a text.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/progress.h"
#include "bench/perplexity.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/terminal.h"

namespace pastkv::cli {
namespace {

struct EvalFlags {
  std::filesystem::path model;
  std::filesystem::path text;
  std::int64_t context = 512;
  std::int64_t chunks = -1;
  bool json = false;
  bool quiet = false;
  EngineFlags engine;
};

// The BOS, if the tokenizer puts one before a text.
std::optional<std::int32_t> added_bos(const text::Tokenizer& tokenizer) {
  const auto bos = tokenizer.bos();
  const std::vector<std::int32_t> with = tokenizer.encode("a", /*add_special=*/true);
  const std::vector<std::int32_t> without = tokenizer.encode("a", /*add_special=*/false);
  const bool added = bos && with.size() > without.size() && with.front() == *bos;
  return added ? bos : std::nullopt;
}

void eval(const EvalFlags& flags) {
  const auto loaded = load(flags.model, flags.engine, flags.quiet);
  const text::Tokenizer& tokenizer =
      require_tokenizer(*loaded, flags.model, "perplexity of a text needs a model with one");
  const std::string text = read_text(flags.text);
  const auto session = loaded->session({.context = context_for(*loaded, flags.context, flags.context, flags.quiet),
                                        .cache_type = cache_type(flags.engine),
                                        .chunk = flags.engine.chunk});
  StatusLine progress(!flags.quiet);
  progress.show("tokenizing");
  // As llama-perplexity does: what looks like a special token in the text is text.
  const std::vector<std::int32_t> tokens = tokenizer.encode(text, /*add_special=*/true, text::SpecialText::as_text);
  const auto show = [&](std::int64_t done, std::int64_t of, double so_far) {
    progress.show(fmt::format("chunk {}/{}  perplexity {:.4f}", done, of, so_far));
  };
  const bench::PerplexityScore score =
      bench::perplexity(*session, tokens, added_bos(tokenizer), flags.context, flags.chunks, show);
  progress.show("");
  if (flags.json) {
    const nlohmann::ordered_json out = {
        {"perplexity", score.perplexity()}, {"error", score.error()}, {"tokens", score.tokens()}};
    fmt::print("{}\n", out.dump());
  } else {
    fmt::print("perplexity {:.4f} ± {:.4f} over {} tokens\n", score.perplexity(), score.error(), score.tokens());
  }
}

}  // namespace

void add_eval(CLI::App& program) {
  auto flags = std::make_shared<EvalFlags>();
  CLI::App& command = *program.add_subcommand("eval", "perplexity of a text, as llama-perplexity measures it");
  add_model(command, flags->model);
  command.add_option("-f,--text,--file", flags->text, "the text ('-': standard input)")->required();
  command.add_option("-c,--context,--ctx-size", flags->context, "tokens of a chunk")
      ->check(CLI::Range(std::int64_t{4}, std::int64_t{1} << 24))
      ->capture_default_str();
  command.add_option("--chunks", flags->chunks, "score only the first chunks (-1: all)")
      ->check(CLI::Range(std::int64_t{-1}, std::int64_t{1} << 40) & !CLI::IsMember({std::int64_t{0}}))
      ->capture_default_str();
  add_engine_flags(command, flags->engine);
  add_json(command, flags->json);
  add_quiet(command, flags->quiet);
  set_examples(command,
               "  pastkv eval model.gguf --text wikitext-2-test.txt\n"
               "  pastkv eval model.gguf --text wikitext-2-test.txt --context 512 --chunks 32 --json");
  command.callback([flags] { eval(*flags); });
}

}  // namespace pastkv::cli
