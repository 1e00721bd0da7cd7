#include "bench/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

namespace pastkv::bench {
namespace {

constexpr std::int64_t kLogitsBudget = std::int64_t{64} << 20U;  // bytes of one model's logits held at once

double log_of_sum(std::span<const float> logits) {
  const double most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - most);
  return most + std::log(sum);
}

double deviation(std::span<const float> row) {
  double sum = 0;
  for (const float x : row) sum += static_cast<double>(x);
  const double mean = sum / static_cast<double>(row.size());
  double squares = 0;
  for (const float x : row) squares += (static_cast<double>(x) - mean) * (static_cast<double>(x) - mean);
  return std::sqrt(squares / static_cast<double>(row.size()));
}

bool all_finite(std::span<const float> row) {
  return std::ranges::all_of(row, [](float x) { return std::isfinite(x); });
}

double divergence(std::span<const float> got, std::span<const float> wanted) {
  const double got_total = log_of_sum(got);
  const double wanted_total = log_of_sum(wanted);
  double kl = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double wanted_log = static_cast<double>(wanted[i]) - wanted_total;
    kl += std::exp(wanted_log) * (wanted_log - (static_cast<double>(got[i]) - got_total));
  }
  return std::max(kl, 0.0);
}

std::span<const float> row_of(std::span<const float> logits, std::int64_t row, std::int64_t vocab,
                              std::int64_t common) {
  return logits.subspan(static_cast<std::size_t>(row * vocab), static_cast<std::size_t>(common));
}

}  // namespace

void LogitsDifference::add(std::span<const float> got, std::span<const float> wanted) {
  ++rows_;
  if (!all_finite(got) || !all_finite(wanted)) {
    largest_ = mean_sum_ = kl_sum_ = largest_kl_ = std::numeric_limits<double>::infinity();
    return;
  }
  // A row of equal logits has no deviation of its own: then the difference itself is told.
  const double unit = std::max(deviation(wanted), 1e-12);
  double sum = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double difference = std::abs(static_cast<double>(got[i]) - static_cast<double>(wanted[i])) / unit;
    largest_ = std::max(largest_, difference);
    sum += difference;
  }
  mean_sum_ += sum / static_cast<double>(wanted.size());
  const double kl = divergence(got, wanted);
  kl_sum_ += kl;
  largest_kl_ = std::max(largest_kl_, kl);
  const auto top = [](std::span<const float> row) { return std::ranges::max_element(row) - row.begin(); };
  if (top(got) == top(wanted)) ++same_top_;
}

double LogitsDifference::mean() const {
  return rows_ == 0 ? 0 : mean_sum_ / static_cast<double>(rows_);
}
double LogitsDifference::kl() const {
  return rows_ == 0 ? 0 : kl_sum_ / static_cast<double>(rows_);
}
double LogitsDifference::top1_agreement() const {
  return rows_ == 0 ? 1 : static_cast<double>(same_top_) / static_cast<double>(rows_);
}

Tolerance tolerance_for(int bits) {
  if (bits > 16) return {.largest = 5e-3, .kl = 1e-5, .agreement = 0.99};  // states of f16 included
  if (bits > 9 || bits == 0) return {.largest = 2e-2, .kl = 1e-3, .agreement = 0.97};
  if (bits > 7) return {.largest = 0.5, .kl = 1e-2, .agreement = 0.8};
  if (bits > 4) return {.largest = 0, .kl = 0.1, .agreement = 0.7};
  return {.largest = 0, .kl = 0.6, .agreement = 0.5};
}

Comparison compare(engine::Session& got, engine::Session& wanted, std::span<const std::int32_t> ids,
                   std::int64_t prefill, const std::function<void(std::int64_t done)>& progress) {
  Comparison out;
  const std::int64_t widest = std::max(got.vocab(), wanted.vocab());
  const std::int64_t common = std::min(got.vocab(), wanted.vocab());
  const std::int64_t piece =
      std::max<std::int64_t>(1, kLogitsBudget / (widest * static_cast<std::int64_t>(sizeof(float))));
  got.truncate(0);
  wanted.truncate(0);
  for (std::int64_t begin = 0; begin < std::ssize(ids);) {
    const std::int64_t count = begin < prefill ? std::min(piece, prefill - begin) : 1;
    const auto part = ids.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
    const std::span<const float> a = got.forward(part, count);
    const std::span<const float> b = wanted.forward(part, count);
    LogitsDifference& difference = begin < prefill ? out.prefill : out.generation;
    for (std::int64_t row = 0; row < count; ++row) {
      difference.add(row_of(a, row, got.vocab(), common), row_of(b, row, wanted.vocab(), common));
    }
    begin += count;
    if (progress) progress(begin);
  }
  return out;
}

std::vector<std::string> faults(const Comparison& comparison, const Tolerance& tolerance) {
  std::vector<std::string> out;
  const auto judge = [&](std::string_view role, const LogitsDifference& d) {
    if (tolerance.largest > 0 && !(d.largest() <= tolerance.largest)) {
      out.push_back(
          fmt::format("{}: the largest difference is {:.3g}, allowed is {:.3g}", role, d.largest(), tolerance.largest));
    }
    if (!(d.kl() <= tolerance.kl)) {
      out.push_back(fmt::format("{}: the KL divergence is {:.3g}, allowed is {:.3g}", role, d.kl(), tolerance.kl));
    }
    if (d.top1_agreement() < tolerance.agreement) {
      out.push_back(fmt::format("{}: the likeliest token is the same at {:.1f} % of the positions, wanted is {:.1f} %",
                                role, 100 * d.top1_agreement(), 100 * tolerance.agreement));
    }
  };
  judge("prefill", comparison.prefill);
  judge("generation", comparison.generation);
  return out;
}

}  // namespace pastkv::bench
