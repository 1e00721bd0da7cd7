#include "engine/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"

namespace pastkv::engine {
namespace {

struct Weighted {
  std::int32_t id;
  double weight;  // not normalised
};

bool likelier(const Weighted& a, const Weighted& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
}

// Candidates whose order is found only as far as it is asked for: a vocabulary has 10^5 entries, a draw needs a few.
class Ranking {
 public:
  explicit Ranking(std::vector<Weighted> entries) : entries_(std::move(entries)) {}

  std::size_t size() const { return entries_.size(); }

  const Weighted& at(std::size_t rank) {
    if (rank >= sorted_) sort_to(std::max<std::size_t>({rank + 1, 64, sorted_ * 4}));
    return entries_[rank];
  }

  // Keeps the `count` likeliest.
  void keep(std::size_t count) {
    if (count >= entries_.size()) return;
    if (count > sorted_) sort_to(count);
    entries_.resize(count);
    sorted_ = std::min(sorted_, count);
  }

  double mass() const {
    double sum = 0;
    for (const Weighted& entry : entries_) sum += entry.weight;
    return sum;
  }

 private:
  void sort_to(std::size_t count) {
    count = std::min(count, entries_.size());
    const auto begin = entries_.begin() + static_cast<std::ptrdiff_t>(sorted_);
    std::partial_sort(begin, entries_.begin() + static_cast<std::ptrdiff_t>(count), entries_.end(), likelier);
    sorted_ = count;
  }

  std::vector<Weighted> entries_;
  std::size_t sorted_ = 0;
};

[[noreturn]] void out_of_range(std::string option, std::string reason) {
  throw Error({.file = {}, .place = std::move(option), .reason = std::move(reason), .remedy = {}});
}

std::vector<float> penalized(std::span<const float> logits, std::span<const std::int32_t> seen, float penalty) {
  std::vector<float> out(logits.begin(), logits.end());
  std::vector<std::int32_t> distinct(seen.begin(), seen.end());
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  for (const std::int32_t id : distinct) {
    if (id < 0 || static_cast<std::size_t>(id) >= out.size()) continue;
    float& logit = out[static_cast<std::size_t>(id)];
    logit = logit > 0 ? logit / penalty : logit * penalty;
  }
  return out;
}

// Index of the largest, the lowest on a tie. Throws when a logit is NaN or all are -inf.
std::int32_t argmax(std::span<const float> logits) {
  std::size_t best = 0;
  bool any_nan = false;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    any_nan |= std::isnan(logits[i]);
    if (logits[i] > logits[best]) best = i;
  }
  if (any_nan || logits.empty() || logits[best] == -std::numeric_limits<float>::infinity()) {
    const auto bad = std::find_if(logits.begin(), logits.end(), [](float x) { return !std::isfinite(x); });
    throw Error({.file = {},
                 .place = "logits",
                 .reason = bad == logits.end() ? std::string("the model gave none")
                                               : fmt::format("the model gave {} for token {}", *bad,
                                                             std::distance(logits.begin(), bad)),
                 .remedy = "the weights are damaged, or overflow the cache type: try --cache-type f32"});
  }
  return static_cast<std::int32_t>(best);
}

// exp((logit - largest) / temperature) of every token; those of no weight at all are left out.
std::vector<Weighted> weights_of(std::span<const float> logits, float largest, double temperature, double smallest) {
  std::vector<Weighted> out;
  out.reserve(logits.size());
  const bool certain = std::isinf(largest);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double weight = certain ? (logits[i] == largest ? 1.0 : 0.0)
                                  : std::exp((static_cast<double>(logits[i]) - largest) / temperature);
    if (weight > 0 && weight >= smallest) out.push_back({static_cast<std::int32_t>(i), weight});
  }
  return out;
}

Ranking rank(std::span<const float> logits, std::span<const std::int32_t> seen, std::int64_t vocabulary,
             const SamplerOptions& options) {
  logits = logits.first(static_cast<std::size_t>(std::clamp<std::int64_t>(vocabulary, 0, std::ssize(logits))));
  std::vector<float> changed;
  if (options.repetition_penalty != 1) logits = changed = penalized(logits, seen, options.repetition_penalty);
  const std::int32_t best = argmax(logits);
  if (options.temperature == 0) return Ranking({{best, 1.0}});

  // min-p counts from the likeliest, which no filter drops; it may go first unless top-p has to see the whole mass.
  const bool top_p = options.top_p < 1;
  Ranking ranking(weights_of(logits, logits[static_cast<std::size_t>(best)], options.temperature,
                             top_p ? 0.0 : static_cast<double>(options.min_p)));
  if (options.top_k > 0) ranking.keep(static_cast<std::size_t>(options.top_k));
  if (top_p) {
    const double wanted = static_cast<double>(options.top_p) * ranking.mass();
    double reached = ranking.at(0).weight;
    std::size_t kept = 1;
    while (kept < ranking.size() && reached < wanted && ranking.at(kept).weight >= options.min_p) {
      reached += ranking.at(kept++).weight;
    }
    ranking.keep(kept);
  }
  return ranking;
}

// log(sum(exp(x))), with the largest taken out.
struct LogSum {
  double largest;
  double log_of_rest;
};

LogSum log_sum(std::span<const float> logits) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::isinf(largest) ? (x == largest ? 1.0 : 0.0) : std::exp(x - largest);
  return {largest, std::log(sum)};
}

float logprob(float logit, const LogSum& total) {
  if (std::isinf(total.largest)) {
    return logit == total.largest ? static_cast<float>(-total.log_of_rest) : -std::numeric_limits<float>::infinity();
  }
  return static_cast<float>(logit - total.largest - total.log_of_rest);
}

}  // namespace

void check(const SamplerOptions& options) {
  if (!(options.temperature >= 0) || std::isinf(options.temperature)) {
    out_of_range("temperature", fmt::format("is {}, and must be 0 (greedy) or more", options.temperature));
  }
  if (options.top_k < 0) out_of_range("top-k", fmt::format("is {}, and must be 0 (off) or more", options.top_k));
  if (!(options.top_p >= 0 && options.top_p <= 1)) {
    out_of_range("top-p", fmt::format("is {}, and must lie between 0 and 1 (off)", options.top_p));
  }
  if (!(options.min_p >= 0 && options.min_p <= 1)) {
    out_of_range("min-p", fmt::format("is {}, and must lie between 0 (off) and 1", options.min_p));
  }
  if (!(options.repetition_penalty > 0) || std::isinf(options.repetition_penalty)) {
    out_of_range("repetition penalty", fmt::format("is {}, and must be above 0 (1: off)", options.repetition_penalty));
  }
}

std::vector<Candidate> candidates(std::span<const float> logits, std::span<const std::int32_t> seen,
                                  std::int64_t vocabulary, const SamplerOptions& options) {
  check(options);
  Ranking ranking = rank(logits, seen, vocabulary, options);
  const double mass = ranking.mass();
  std::vector<Candidate> out;
  out.reserve(ranking.size());
  for (std::size_t i = 0; i < ranking.size(); ++i) {
    out.push_back({ranking.at(i).id, static_cast<float>(ranking.at(i).weight / mass)});
  }
  return out;
}

Sampler::Sampler(SamplerOptions options) : options_(options), random_(options.seed) {
  check(options_);
}

std::int32_t Sampler::sample(std::span<const float> logits, std::span<const std::int32_t> seen,
                             std::int64_t vocabulary) {
  Ranking ranking = rank(logits, seen, vocabulary, options_);
  if (ranking.size() == 1) return ranking.at(0).id;
  // By hand, because the standard's distributions differ from library to library.
  const double unit = static_cast<double>(random_() >> 11U) * 0x1p-53;
  double left = unit * ranking.mass();
  for (std::size_t i = 0; i + 1 < ranking.size(); ++i) {
    left -= ranking.at(i).weight;
    if (left < 0) return ranking.at(i).id;
  }
  return ranking.at(ranking.size() - 1).id;
}

TokenLogprob logprob_of(std::span<const float> logits, std::int32_t id) {
  return {id, logprob(logits[static_cast<std::size_t>(id)], log_sum(logits))};
}

std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, std::size_t count) {
  count = std::min(count, logits.size());
  if (count == 0) return {};
  std::vector<std::int32_t> order(logits.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [&](std::int32_t a, std::int32_t b) {
                      const float x = logits[static_cast<std::size_t>(a)];
                      const float y = logits[static_cast<std::size_t>(b)];
                      return x != y ? x > y : a < b;
                    });
  const LogSum total = log_sum(logits);
  std::vector<TokenLogprob> out;
  out.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back({order[i], logprob(logits[static_cast<std::size_t>(order[i])], total)});
  }
  return out;
}

}  // namespace pastkv::engine
