#include "bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace pastkv::bench {
namespace {

constexpr int kResamples = 2000;
constexpr std::uint64_t kSeed = 20250101;  // fixed: the same samples give the same interval

double sorted_percentile(std::span<const double> sorted, double p) {
  const double rank = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(rank);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], rank - static_cast<double>(below));
}

// Reorders `values`.
double median_of(std::span<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

}  // namespace

double percentile(std::span<const double> samples, double p) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted_percentile(sorted, p);
}

Summary summarize(std::span<const double> samples) {
  const auto n = static_cast<double>(samples.size());
  Summary out;
  out.median = percentile(samples, 0.5);
  out.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / n;
  out.min = *std::min_element(samples.begin(), samples.end());
  if (samples.size() > 1) {
    double squares = 0;
    for (const double x : samples) squares += (x - out.mean) * (x - out.mean);
    out.stddev = std::sqrt(squares / (n - 1));
  }

  std::mt19937_64 random(kSeed);
  std::vector<double> medians(kResamples);
  std::vector<double> resample(samples.size());
  for (double& median : medians) {
    for (double& x : resample) x = samples[random() % samples.size()];
    median = median_of(resample);
  }
  std::sort(medians.begin(), medians.end());
  out.ci95_low = sorted_percentile(medians, 0.025);
  out.ci95_high = sorted_percentile(medians, 0.975);
  return out;
}

std::optional<double> rate(std::int64_t tokens, double seconds) {
  if (tokens <= 0 || !(seconds > 0)) return std::nullopt;
  return static_cast<double>(tokens) / seconds;
}

std::optional<double> generation_rate(std::int64_t tokens, double total_seconds, double first_token_seconds) {
  return rate(tokens - 1, total_seconds - first_token_seconds);
}

}  // namespace pastkv::bench
