// Two models asked the same tokens: how far the logits of one are from those of the other, in a prefill and on the
// cache both, and whether that is what a faithful copy may show.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/session.h"

namespace pastkv::bench {

// Differences over rows of logits. Sums are kept, rows are not.
class LogitsDifference {
 public:
  // Rows of one position, of the same width. Numbers that are none (NaN, infinite) make the row one that differs
  // without bound.
  void add(std::span<const float> got, std::span<const float> wanted);

  std::int64_t rows() const { return rows_; }
  double largest() const { return largest_; }  // of |got - wanted|, over the standard deviation of the wanted row
  double mean() const;                         // of the same over all numbers
  double kl() const;                           // mean of KL(wanted || got) in nats
  double largest_kl() const { return largest_kl_; }
  double top1_agreement() const;  // share of the rows whose likeliest token is the same

 private:
  std::int64_t rows_ = 0;
  std::int64_t same_top_ = 0;
  double largest_ = 0;
  double mean_sum_ = 0;
  double kl_sum_ = 0;
  double largest_kl_ = 0;
};

// What a faithful copy may show.
struct Tolerance {
  double largest = 0;    // of the difference over the standard deviation; 0: not judged
  double kl = 0;         // of the mean
  double agreement = 0;  // least top-1 agreement
};

// By the bits of a number in the coarser of two models (0: unknown, taken for 16).
Tolerance tolerance_for(int bits);

struct Comparison {
  LogitsDifference prefill;
  LogitsDifference generation;  // one token at a time, on the cache that the prefill left
};

// The ids before `prefill` in one prefill (in pieces, where the logits would take too much memory), the others one at a
// time. Where the vocabularies are of different sizes (padding), the ids that both have are compared. `progress` is
// told the tokens done; may be empty. Throws Error as the sessions do.
Comparison compare(engine::Session& got, engine::Session& wanted, std::span<const std::int32_t> ids,
                   std::int64_t prefill, const std::function<void(std::int64_t done)>& progress);

// What passes the tolerance, one line each: "prefill: the largest difference is 0.12, allowed are 0.02". Empty: agrees.
std::vector<std::string> faults(const Comparison& comparison, const Tolerance& tolerance);

}  // namespace pastkv::bench
