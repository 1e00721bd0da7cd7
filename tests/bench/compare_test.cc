#include "bench/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/fake_session.h"

namespace pastkv::bench {
namespace {

using engine::FakeModel;
using engine::FakeSession;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Row = std::vector<float>;
using Ids = std::vector<std::int32_t>;

TEST(LogitsDifference, OfEqualRowsIsNothing) {
  LogitsDifference difference;
  difference.add(Row{1, 2, 3}, Row{1, 2, 3});
  EXPECT_EQ(difference.rows(), 1);
  EXPECT_EQ(difference.largest(), 0);
  EXPECT_EQ(difference.mean(), 0);
  EXPECT_NEAR(difference.kl(), 0, 1e-12);
  EXPECT_EQ(difference.top1_agreement(), 1);
}

TEST(LogitsDifference, IsOverTheDeviationOfTheRowThatIsRight) {
  LogitsDifference difference;
  difference.add(Row{-1, 1, -1, 2}, Row{-1, 1, -1, 1});  // deviation 1
  difference.add(Row{-2, 2, -2, 3}, Row{-2, 2, -2, 2});  // deviation 2
  EXPECT_NEAR(difference.largest(), 1, 1e-12);
  EXPECT_NEAR(difference.mean(), (0.25 + 0.125) / 2, 1e-12);
  EXPECT_EQ(difference.top1_agreement(), 0);  // of equals the first counts
}

TEST(LogitsDifference, KlIsOfTheRightDistributionFromTheOther) {
  LogitsDifference difference;
  // (3/4, 1/4) against (1/2, 1/2): 3/4 ln(3/2) + 1/4 ln(1/2).
  difference.add(Row{0, 0}, Row{static_cast<float>(std::log(3.0)), 0});
  const double wanted = 0.75 * std::log(1.5) + 0.25 * std::log(0.5);
  EXPECT_NEAR(difference.kl(), wanted, 1e-7);
  EXPECT_NEAR(difference.largest_kl(), wanted, 1e-7);
}

TEST(LogitsDifference, WhatIsNoNumberDiffersWithoutBound) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    LogitsDifference difference;
    difference.add(Row{1, bad}, Row{1, 2});
    EXPECT_TRUE(std::isinf(difference.largest()));
    EXPECT_TRUE(std::isinf(difference.kl()));
    EXPECT_EQ(difference.top1_agreement(), 0);
  }
}

// Logits by the last id that is held.
FakeModel speaker(std::int64_t vocab, float lie = 0) {
  FakeModel model;
  model.vocab = vocab;
  model.logits = [=](const Ids& held) {
    Row row(static_cast<std::size_t>(vocab), 0.0F);
    row[static_cast<std::size_t>(held.back())] = 4;
    row[0] += held.size() > 3 ? lie : 0;
    return row;
  };
  return model;
}

TEST(Compare, PrefillIsOneCallAndTheRestOneIdAtATime) {
  FakeModel a = speaker(4);
  FakeModel b = speaker(4);
  FakeSession one(a, 8);
  FakeSession other(b, 8);
  std::vector<std::int64_t> told;
  const Comparison comparison =
      compare(one, other, Ids{1, 2, 3, 1}, 1, [&](std::int64_t done) { told.push_back(done); });
  EXPECT_THAT(a.calls, ElementsAre(Ids{1}, Ids{2}, Ids{3}, Ids{1}));
  EXPECT_THAT(told, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(comparison.prefill.rows(), 1);
  EXPECT_EQ(comparison.generation.rows(), 3);
  EXPECT_THAT(faults(comparison, {.largest = 1e-6, .kl = 1e-9, .agreement = 1}), IsEmpty());
}

TEST(Compare, AFaultOnTheCacheAloneIsNamedAsSuch) {
  FakeModel a = speaker(4, 9);
  FakeModel b = speaker(4);
  FakeSession one(a, 8);
  FakeSession other(b, 8);
  const Comparison comparison = compare(one, other, Ids{1, 2, 3, 1}, 1, {});
  EXPECT_EQ(comparison.prefill.largest(), 0);
  EXPECT_THAT(faults(comparison, {.largest = 0.5, .kl = 0.1, .agreement = 0.9}),
              ElementsAre(HasSubstr("generation: the largest difference"), HasSubstr("generation: the KL divergence"),
                          HasSubstr("generation: the likeliest token is the same at 66.7 %")));
}

TEST(Compare, OfAPaddedVocabularyTheIdsThatBothHave) {
  FakeModel a = speaker(6);
  FakeModel b = speaker(4);
  FakeSession one(a, 8);
  FakeSession other(b, 8);
  EXPECT_EQ(compare(one, other, Ids{1, 2}, 1, {}).generation.largest(), 0);
}

TEST(Tolerance, IsWiderForCoarserWeights) {
  Tolerance before = tolerance_for(32);
  for (const int bits : {16, 8, 6, 4}) {
    const Tolerance now = tolerance_for(bits);
    EXPECT_GT(now.kl, before.kl) << bits;
    EXPECT_LT(now.agreement, before.agreement) << bits;
    before = now;
  }
  EXPECT_EQ(tolerance_for(0).kl, tolerance_for(16).kl);
}

TEST(Tolerance, OfZeroLeavesTheLargestDifferenceOut) {
  Comparison comparison;
  comparison.prefill.add(Row{3, 4, 9}, Row{3, 4, 5});
  EXPECT_THAT(faults(comparison, {.largest = 0, .kl = 10, .agreement = 0}), IsEmpty());
}

}  // namespace
}  // namespace pastkv::bench
