#include "bench/perplexity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"

namespace pastkv::bench {
namespace {

TEST(PerplexityScore, OfEqualProbabilitiesIsTheirNumberWithoutError) {
  PerplexityScore score;
  for (int i = 0; i < 10; ++i) score.add(std::log(1.0 / 50));
  EXPECT_NEAR(score.perplexity(), 50, 1e-9);
  EXPECT_NEAR(score.error(), 0, 1e-5);
  EXPECT_EQ(score.tokens(), 10);
}

TEST(PerplexityScore, ErrorIsTheStandardErrorOfTheMeanTimesThePerplexity) {
  PerplexityScore score;
  for (const double x : {-1.0, -2.0, -3.0, -4.0}) score.add(x);
  EXPECT_NEAR(score.perplexity(), std::exp(2.5), 1e-9);
  EXPECT_NEAR(score.error(), std::sqrt(1.25 / 3) * std::exp(2.5), 1e-9);
}

TEST(PerplexityScore, OfNothingOrOneTokenHasNoError) {
  PerplexityScore score;
  EXPECT_EQ(score.perplexity(), 0);
  score.add(-1);
  EXPECT_EQ(score.error(), 0);
}

TEST(PerplexityScore, RefusesWhatIsNoNumber) {
  PerplexityScore score;
  EXPECT_THROW(score.add(std::nan("")), Error);
  EXPECT_THROW(score.add(-std::numeric_limits<double>::infinity()), Error);
}

}  // namespace
}  // namespace pastkv::bench
