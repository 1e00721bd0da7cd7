#include "engine/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/error.h"
#include "engine/stop_text.h"

namespace pastkv::engine {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

void check_prompt(const Session& session, std::span<const std::int32_t> prompt, const text::Tokenizer* tokenizer,
                  const GenerateOptions& options) {
  if (prompt.empty()) {
    throw Error({.file = {}, .place = "prompt", .reason = "is empty", .remedy = "give at least one token"});
  }
  const auto stranger =
      std::find_if(prompt.begin(), prompt.end(), [&](std::int32_t id) { return id < 0 || id >= session.vocab(); });
  if (stranger != prompt.end()) {
    std::string reason = fmt::format("id {} is outside the model's vocabulary of {}", *stranger, session.vocab());
    std::string remedy = "give ids below it";
    if (tokenizer != nullptr && tokenizer->size() > session.vocab()) {
      reason += fmt::format(", while its tokenizer has {} ids", tokenizer->size());
      remedy = "the tokenizer is not this model's own";
    }
    throw Error({.file = {}, .place = "prompt", .reason = std::move(reason), .remedy = std::move(remedy)});
  }
  const auto length = std::ssize(prompt);
  if (length > session.context() || (length == session.context() && options.max_tokens != 0)) {
    throw Error({.file = {},
                 .place = "prompt",
                 .reason = fmt::format("has {} tokens, and the context holds {}{}", length, session.context(),
                                       length == session.context() ? ": no room for an answer" : ""),
                 .remedy = "shorten it, or raise --context"});
  }
}

// Gives the number of tokens kept. The last one is always computed: its logits are needed.
std::int64_t keep_common_prefix(Session& session, std::span<const std::int32_t> prompt) {
  const std::span<const std::int32_t> held = session.ids();
  const auto limit = std::min(prompt.size() - 1, held.size());
  std::size_t common = 0;
  while (common < limit && held[common] == prompt[common]) ++common;
  return session.truncate(static_cast<std::int64_t>(common));
}

// Ids become text, and text reaches the caller as soon as no stop text can claim it.
class TextOutput {
 public:
  TextOutput(const text::Tokenizer* tokenizer, const std::vector<std::string>& stop,
             const std::function<void(std::string_view)>& emit)
      : stop_(stop), emit_(emit) {
    if (tokenizer != nullptr) decoder_.emplace(*tokenizer, /*skip_special=*/true);
    if (tokenizer == nullptr && !stop.empty()) {
      throw Error({.file = {},
                   .place = "stop text",
                   .reason = "cannot be found: the model has no tokenizer",
                   .remedy = "use --max-tokens"});
    }
  }

  // False when a stop text was met.
  bool push(std::int32_t id) {
    if (decoder_) give(stop_.push(decoder_->push(id)));
    return !stop_.stopped();
  }

  void finish() {
    if (decoder_ && !stop_.stopped()) give(stop_.push(decoder_->finish()));
    if (!stop_.stopped()) give(stop_.finish());
  }

  bool stopped() const { return stop_.stopped(); }
  std::string take() { return std::move(text_); }

 private:
  void give(const std::string& text) {
    if (text.empty()) return;
    text_ += text;
    if (emit_) emit_(text);
  }

  std::optional<text::StreamDecoder> decoder_;
  StopText stop_;
  const std::function<void(std::string_view)>& emit_;
  std::string text_;
};

// Stop texts that are spellings of special tokens: these never show in the text, and are met as ids.
std::vector<std::int32_t> stop_ids(const text::Tokenizer* tokenizer, const std::vector<std::string>& stop) {
  std::vector<std::int32_t> ids;
  for (const std::string& text : stop) {
    const auto id = tokenizer == nullptr ? std::nullopt : tokenizer->id_of(text);
    if (id && tokenizer->is_special(*id)) ids.push_back(*id);
  }
  return ids;
}

GenerateStep step_of(std::span<const float> logits, std::int32_t id, std::size_t count) {
  return {id, logprob_of(logits, id).logprob, top_logprobs(logits, count)};
}

bool contains(const std::vector<std::int32_t>& ids, std::int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

std::string_view name(Finish finish) {
  switch (finish) {
    case Finish::length:
      return "length";
    case Finish::stop:
      return "stop";
    case Finish::eos:
      return "eos";
    case Finish::cancelled:
      return "cancelled";
  }
  return "length";
}

Generated generate(Session& session, std::span<const std::int32_t> prompt, const text::Tokenizer* tokenizer,
                   const GenerateOptions& options, const std::function<void(std::string_view)>& emit) {
  check_prompt(session, prompt, tokenizer, options);
  Sampler sampler(options.sampler);
  TextOutput output(tokenizer, options.stop, emit);
  const std::vector<std::int32_t> stops = stop_ids(tokenizer, options.stop);
  const std::int64_t known =
      tokenizer == nullptr ? session.vocab() : std::min<std::int64_t>(session.vocab(), tokenizer->size());
  const std::int64_t room = session.context() - std::ssize(prompt);
  const std::int64_t most = options.max_tokens < 0 ? room : std::min(options.max_tokens, room);

  Generated result;
  const auto begin = Clock::now();
  result.reused_tokens = keep_common_prefix(session, prompt);
  std::span<const float> logits = session.forward(prompt.subspan(static_cast<std::size_t>(result.reused_tokens)));
  result.timing.prefill_ms = milliseconds(begin, Clock::now());

  std::vector<std::int32_t> seen(prompt.begin(), prompt.end());
  Clock::time_point first;
  Clock::time_point last;
  for (std::int64_t drawn = 0; drawn < most; ++drawn) {
    if (drawn > 0) {
      logits = session.forward({&seen.back(), 1});
      ++result.decoded_tokens;
    }
    const std::int32_t id = sampler.sample(logits, seen, known);
    last = Clock::now();
    if (drawn == 0) first = last;
    if (contains(options.eos_ids, id)) {
      result.finish = Finish::eos;
      break;
    }
    if (contains(stops, id)) {
      result.finish = Finish::stop;
      break;
    }
    if (options.score || options.logprobs > 0) result.steps.push_back(step_of(logits, id, options.logprobs));
    seen.push_back(id);
    result.ids.push_back(id);
    if (!output.push(id)) {
      result.finish = Finish::stop;
      break;
    }
    if (options.cancel != nullptr && options.cancel->load(std::memory_order_relaxed)) {
      result.finish = Finish::cancelled;
      break;
    }
  }
  output.finish();
  if (output.stopped()) result.finish = Finish::stop;  // text held back until the end may complete a stop text
  result.text = output.take();
  if (most > 0) {
    result.timing.time_to_first_token_ms = milliseconds(begin, first);
    result.timing.generation_ms = milliseconds(first, last);
  }
  return result;
}

}  // namespace pastkv::engine
