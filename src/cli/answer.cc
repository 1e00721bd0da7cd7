#include "cli/answer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "bench/process.h"
#include "bench/statistics.h"
#include "cli/terminal.h"

namespace pastkv::cli {
namespace {

std::string speed(std::int64_t tokens, double ms) {
  const auto rate = bench::rate(tokens, ms / 1e3);
  return rate ? fmt::format(" ({:.1f} tok/s)", *rate) : "";
}

}  // namespace

text::ChatTemplate require_template(const bench::OpenedModel& loaded, const std::filesystem::path& path) {
  auto chat = loaded.chat_template();
  if (!chat) {
    throw Error({.file = path.string(),
                 .place = "chat template",
                 .reason = "the model has none",
                 .remedy = "use run without --chat, or a chat model"});
  }
  return *std::move(chat);
}

const text::Tokenizer& require_tokenizer(const bench::OpenedModel& loaded, const std::filesystem::path& path,
                                         std::string_view remedy) {
  if (!loaded.tokenizer) {
    throw Error(
        {.file = path.string(), .place = "tokenizer", .reason = "the model has none", .remedy = std::string(remedy)});
  }
  return *loaded.tokenizer;
}

std::int64_t context_for(const bench::OpenedModel& loaded, std::int64_t asked, std::int64_t needed, bool quiet) {
  const std::int64_t trained = loaded.max_positions;
  if (asked == 0) return trained > 0 ? std::min(trained, needed) : needed;
  if (trained > 0 && asked > trained) {
    warn(fmt::format("a context of {} tokens is more than the {} that the model was trained for", asked, trained),
         quiet);
  }
  return asked;
}

std::string stats_line(const engine::Generated& answer, std::size_t prompt_tokens) {
  const auto computed = static_cast<std::int64_t>(prompt_tokens) - answer.reused_tokens;
  std::string line = fmt::format("prefill {} tokens in {}{}", computed, milliseconds_text(answer.timing.prefill_ms),
                                 speed(computed, answer.timing.prefill_ms));
  if (answer.reused_tokens > 0) line += fmt::format(", {} more from the cache", answer.reused_tokens);
  line += fmt::format("; generation {} tokens in {}{}", answer.decoded_tokens,
                      milliseconds_text(answer.timing.generation_ms),
                      speed(answer.decoded_tokens, answer.timing.generation_ms));
  line += fmt::format("; first token after {}", milliseconds_text(answer.timing.time_to_first_token_ms));
  return line +
         fmt::format("; peak memory {}", bytes_text(static_cast<double>(bench::process_memory().peak_rss_bytes)));
}

}  // namespace pastkv::cli
