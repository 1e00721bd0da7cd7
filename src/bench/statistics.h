// Statistics of a benchmark, as pure functions of the samples. Nothing is dropped: a warm-up is left out by the caller.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace pastkv::bench {

struct Summary {
  double median = 0;
  double mean = 0;
  double min = 0;
  std::optional<double> stddev;  // of the sample (n - 1); none for a single one
  double ci95_low = 0;           // 95 % bootstrap percentile interval of the median
  double ci95_high = 0;
};

// Precondition for all: `samples` is not empty.
Summary summarize(std::span<const double> samples);

// Linear interpolation between order statistics at rank p * (n - 1) (type 7 of Hyndman and Fan). `p` in [0, 1].
double percentile(std::span<const double> samples, double p);

// Tokens per second; nothing when no time passed or no token was produced.
std::optional<double> rate(std::int64_t tokens, double seconds);

// The speed of generation as an application sees it: the first token belongs to the prefill, and so does its time.
std::optional<double> generation_rate(std::int64_t tokens, double total_seconds, double first_token_seconds);

}  // namespace pastkv::bench
