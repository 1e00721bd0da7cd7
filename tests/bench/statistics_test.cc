#include "bench/statistics.h"

#include <gtest/gtest.h>

#include <vector>

namespace pastkv::bench {
namespace {

// Expected values: numpy 2.4 (median, mean, std with ddof=1, percentile).
const std::vector<double> kSamples = {12.5, 11.9, 12.1, 15.0, 11.8, 12.0, 12.3};

TEST(Statistics, SummaryOfSamples) {
  const Summary s = summarize(kSamples);
  EXPECT_DOUBLE_EQ(s.median, 12.1);
  EXPECT_NEAR(s.mean, 12.514285714285714, 1e-12);
  EXPECT_DOUBLE_EQ(s.min, 11.8);
  ASSERT_TRUE(s.stddev);
  EXPECT_NEAR(*s.stddev, 1.1216484467493537, 1e-9);
}

TEST(Statistics, PercentilesInterpolateBetweenRanks) {
  EXPECT_NEAR(percentile(kSamples, 0.5), 12.1, 1e-12);
  EXPECT_NEAR(percentile(kSamples, 0.9), 13.5, 1e-12);
  EXPECT_NEAR(percentile(kSamples, 0.95), 14.25, 1e-12);
  EXPECT_NEAR(percentile(kSamples, 0.99), 14.85, 1e-12);
  EXPECT_DOUBLE_EQ(percentile(kSamples, 0), 11.8);
  EXPECT_DOUBLE_EQ(percentile(kSamples, 1), 15.0);
  EXPECT_NEAR(percentile(std::vector<double>{1, 2}, 0.5), 1.5, 1e-12);
}

TEST(Statistics, IntervalHoldsTheMedianAndIsTheSameEachTime) {
  const Summary s = summarize(kSamples);
  // Over all 7^7 resamples the median is 11.9 or less in 10.8 %, 11.8 or less in 1.0 %; 12.5 or less in 99.0 %, 12.3 or
  // less in 89.2 % of them.
  EXPECT_DOUBLE_EQ(s.ci95_low, 11.9);
  EXPECT_DOUBLE_EQ(s.ci95_high, 12.5);
  const Summary again = summarize(kSamples);
  EXPECT_EQ(again.ci95_low, s.ci95_low);
  EXPECT_EQ(again.ci95_high, s.ci95_high);
}

TEST(Statistics, OneSampleHasNoSpread) {
  const Summary s = summarize(std::vector<double>{3.5});
  EXPECT_EQ(s.median, 3.5);
  EXPECT_FALSE(s.stddev);
  EXPECT_EQ(s.ci95_low, 3.5);
  EXPECT_EQ(s.ci95_high, 3.5);
}

TEST(Statistics, AWarmUpIsLeftOutByTheCallerAndTheRestIsAsItIs) {
  const std::vector<double> seconds = {10.0, 1.0, 1.1, 0.9};
  const Summary s = summarize(std::span(seconds).subspan(1));
  EXPECT_NEAR(s.mean, 1.0, 1e-12);
  EXPECT_NEAR(*s.stddev, 0.1, 1e-12);
  EXPECT_NEAR(s.median, 1.0, 1e-12);
  EXPECT_NEAR(*rate(128, s.mean), 128.0, 1e-9);
  std::vector<double> rates;
  for (const double t : std::span(seconds).subspan(1)) rates.push_back(*rate(128, t));
  EXPECT_NEAR(summarize(rates).mean, 128.862, 5e-4);
}

TEST(Statistics, RatesCountTheTokensReallyGenerated) {
  EXPECT_NEAR(*rate(1676, 25.05), 66.906, 5e-4);
  EXPECT_NEAR(*rate(78, 59.05), 1.3209, 5e-5);
}

TEST(Statistics, TheFirstTokenIsNotPartOfTheGenerationRate) {
  EXPECT_NEAR(*generation_rate(43, 17.4, 15.7), 24.706, 5e-4);
  EXPECT_FALSE(generation_rate(1, 15.7, 15.7));
  EXPECT_FALSE(generation_rate(0, 1, 1));
  EXPECT_FALSE(rate(5, 0));
}

}  // namespace
}  // namespace pastkv::bench
