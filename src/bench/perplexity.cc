#include "bench/perplexity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "engine/sampler.h"

namespace pastkv::bench {
namespace {

constexpr std::int64_t kLogitsBudget = std::int64_t{64} << 20U;  // bytes of logits held at once
constexpr std::int64_t kFewestRows = 16;

void score_chunk(engine::Session& session, std::span<const std::int32_t> ids, PerplexityScore& score) {
  const std::int64_t vocab = session.vocab();
  const std::int64_t most = std::max(kFewestRows, kLogitsBudget / (vocab * static_cast<std::int64_t>(sizeof(float))));
  const std::int64_t first = std::ssize(ids) / 2;
  const std::int64_t last = std::ssize(ids) - 1;  // the last token is only predicted, never fed
  session.truncate(0);
  if (first > 0) session.forward(ids.first(static_cast<std::size_t>(first)));
  for (std::int64_t begin = first; begin < last; begin += most) {
    const std::int64_t rows = std::min(most, last - begin);
    const std::span<const float> logits =
        session.forward(ids.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(rows)), rows);
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto of_row = logits.subspan(static_cast<std::size_t>(row * vocab), static_cast<std::size_t>(vocab));
      score.add(engine::logprob_of(of_row, ids[static_cast<std::size_t>(begin + row + 1)]).logprob);
    }
  }
}

}  // namespace

void PerplexityScore::add(double logprob) {
  if (!std::isfinite(logprob)) {
    throw Error({.file = {},
                 .place = "logits",
                 .reason = fmt::format("give a log probability of {} to token {} of those scored", logprob, tokens_),
                 .remedy = "the weights are damaged, or overflow the cache type: try --cache-type f32"});
  }
  ++tokens_;
  sum_ -= logprob;
  squares_ += logprob * logprob;
}

double PerplexityScore::perplexity() const {
  return tokens_ == 0 ? 0 : std::exp(sum_ / static_cast<double>(tokens_));
}

double PerplexityScore::error() const {
  if (tokens_ < 2) return 0;
  const auto n = static_cast<double>(tokens_);
  const double mean = sum_ / n;
  const double variance = std::max(0.0, squares_ / n - mean * mean);
  return std::sqrt(variance / (n - 1)) * perplexity();
}

PerplexityScore perplexity(engine::Session& session, std::span<const std::int32_t> tokens,
                           std::optional<std::int32_t> bos, std::int64_t context, std::int64_t chunks,
                           const std::function<void(std::int64_t done, std::int64_t of, double so_far)>& progress) {
  const std::int64_t whole = std::ssize(tokens) / context;
  if (whole == 0) {
    throw Error({.file = {},
                 .place = "text",
                 .reason = fmt::format("has {} tokens, and one chunk takes {}", tokens.size(), context),
                 .remedy = "give a longer text, or a smaller --context"});
  }
  const std::int64_t count = chunks < 0 ? whole : std::min(chunks, whole);
  PerplexityScore score;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto chunk = tokens.subspan(static_cast<std::size_t>(i * context), static_cast<std::size_t>(context));
    std::vector<std::int32_t> ids(chunk.begin(), chunk.end());
    if (bos) ids.front() = *bos;
    score_chunk(session, ids, score);
    if (progress) progress(i + 1, count, score.perplexity());
  }
  return score;
}

}  // namespace pastkv::bench
