#include "engine/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"

namespace pastkv::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

std::vector<std::int32_t> ids(std::span<const float> logits, const SamplerOptions& options) {
  std::vector<std::int32_t> out;
  for (const Candidate& c : candidates(logits, {}, std::ssize(logits), options)) out.push_back(c.id);
  return out;
}

template <typename Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Sampler, ProbabilitiesAreTheSoftmax) {
  const std::vector<float> logits = {3, 2, 1, 0};
  const auto all = candidates(logits, {}, 4, {.temperature = 1});
  ASSERT_EQ(all.size(), 4U);
  EXPECT_NEAR(all[0].probability, 0.643914, 1e-6);
  EXPECT_NEAR(all[1].probability, 0.236883, 1e-6);
  EXPECT_NEAR(all[2].probability, 0.087144, 1e-6);
  EXPECT_NEAR(all[3].probability, 0.032059, 1e-6);
}

TEST(Sampler, ProbabilitiesOfWhatIsLeftSumToOne) {
  const std::vector<float> logits = {3, 2, 1, 0};
  const auto two = candidates(logits, {}, 4, {.temperature = 1, .top_k = 2});
  ASSERT_EQ(two.size(), 2U);
  EXPECT_NEAR(two[0].probability, 0.643914 / (0.643914 + 0.236883), 1e-6);
  EXPECT_NEAR(two[0].probability + two[1].probability, 1, 1e-6);
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesTheMassAndNeverNothing) {
  const std::vector<float> logits = {3, 2, 1, 0};
  EXPECT_THAT(ids(logits, {.temperature = 1, .top_p = 0.0F}), ElementsAre(0));
  EXPECT_THAT(ids(logits, {.temperature = 1, .top_p = 0.6F}), ElementsAre(0));
  EXPECT_THAT(ids(logits, {.temperature = 1, .top_p = 0.9F}), ElementsAre(0, 1, 2));
  EXPECT_THAT(ids(logits, {.temperature = 1, .top_p = 1.0F}), ElementsAre(0, 1, 2, 3));
}

TEST(Sampler, TopPCountsTheMassLeftByTopK) {
  const std::vector<float> logits = {3, 2, 1, 0};
  // Of the two kept, the first alone holds 0.731.
  EXPECT_THAT(ids(logits, {.temperature = 1, .top_k = 2, .top_p = 0.7F}), ElementsAre(0));
  EXPECT_THAT(ids(logits, {.temperature = 1, .top_p = 0.7F}), ElementsAre(0, 1));
}

TEST(Sampler, MinPComparesWithTheLikeliest) {
  const std::vector<float> logits = {2.0F, 1.9F, 1.8F, 1.7F, 1.6F};
  EXPECT_THAT(ids(logits, {.temperature = 1, .min_p = 1.0F}), ElementsAre(0));
  EXPECT_THAT(ids(logits, {.temperature = 1, .min_p = 0.9F}), ElementsAre(0, 1));
  EXPECT_THAT(ids(logits, {.temperature = 1, .top_p = 0.99F, .min_p = 0.9F}), ElementsAre(0, 1));
}

TEST(Sampler, ZeroTemperatureIsGreedyAndATinyOneDoesNotOverflow) {
  const std::vector<float> logits = {2.0F, 1.9F, 1.8F, 1.7F, 1.6F};
  EXPECT_THAT(ids(logits, {.temperature = 0}), ElementsAre(0));
  EXPECT_THAT(ids(logits, {.temperature = 1e-9F}), ElementsAre(0));
}

TEST(Sampler, TopKZeroIsOffAndALargeOneKeepsAll) {
  const std::vector<float> logits = {2.0F, 1.9F, 1.8F, 1.7F, 1.6F};
  EXPECT_THAT(ids(logits, {.temperature = 1, .top_k = 0}), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(ids(logits, {.temperature = 1, .top_k = 99}), ElementsAre(0, 1, 2, 3, 4));
}

TEST(Sampler, TiesGoToTheLowestId) {
  const std::vector<float> logits = {1, 5, 5, 5};
  EXPECT_THAT(ids(logits, {.temperature = 0}), ElementsAre(1));
  EXPECT_THAT(ids(logits, {.temperature = 1, .top_k = 2}), ElementsAre(1, 2));
}

TEST(Sampler, OptionsOutOfRangeAreNamed) {
  const std::vector<float> logits = {3, 2, 1, 0};
  const auto message = [&](const SamplerOptions& options) { return error_of([&] { ids(logits, options); }); };
  EXPECT_THAT(message({.top_p = 1.5F}), HasSubstr("top-p: is 1.5"));
  EXPECT_THAT(message({.top_p = -0.1F}), HasSubstr("top-p: is -0.1"));
  EXPECT_THAT(message({.top_p = kNan}), HasSubstr("top-p"));
  EXPECT_THAT(message({.temperature = -1}), HasSubstr("temperature: is -1"));
  EXPECT_THAT(message({.temperature = kNan}), HasSubstr("temperature"));
  EXPECT_THAT(message({.top_k = -3}), HasSubstr("top-k: is -3"));
  EXPECT_THAT(message({.min_p = 2}), HasSubstr("min-p: is 2"));
  EXPECT_THAT(message({.repetition_penalty = 0}), HasSubstr("repetition penalty: is 0"));
  EXPECT_THAT(message({.repetition_penalty = -1}), HasSubstr("repetition penalty: is -1"));
}

TEST(Sampler, PenaltyMakesPositiveAndNegativeLogitsLessLikelyOncePerToken) {
  const std::vector<float> logits = {2.0F, -2.0F, 0.0F, 1.0F};
  const std::vector<std::int32_t> seen = {0, 1, 2, 2, 0, -1, 400};
  const auto got = candidates(logits, seen, 4, {.temperature = 1, .repetition_penalty = 1.5F});
  const std::vector<float> expected_logits = {1.3333333F, -3.0F, 0.0F, 1.0F};
  double sum = 0;
  for (const float x : expected_logits) sum += std::exp(x);
  ASSERT_EQ(got.size(), 4U);
  for (const Candidate& c : got) {
    EXPECT_NEAR(c.probability, std::exp(expected_logits[static_cast<std::size_t>(c.id)]) / sum, 1e-6) << c.id;
  }
}

TEST(Sampler, LogitsThatAreNoNumbersAreAnErrorAndInfinityIsCertain) {
  for (const float temperature : {0.0F, 1.0F}) {
    const SamplerOptions options = {.temperature = temperature};
    EXPECT_THAT(error_of([&] { ids(std::vector<float>{kNan, kNan}, options); }), HasSubstr("nan for token 0"));
    EXPECT_THAT(error_of([&] { ids(std::vector<float>{kNan, 1}, options); }), HasSubstr("nan for token 0"));
    EXPECT_THAT(error_of([&] { ids(std::vector<float>{1, kNan}, options); }), HasSubstr("nan for token 1"));
    EXPECT_THAT(error_of([&] { ids(std::vector<float>{-kInf, -kInf}, options); }), HasSubstr("-inf for token 0"));
    EXPECT_THAT(error_of([&] { ids(std::vector<float>{}, options); }), HasSubstr("gave none"));
    EXPECT_THAT(ids(std::vector<float>{kInf, 1}, options), ElementsAre(0));
    EXPECT_THAT(ids(std::vector<float>{-kInf, 1}, options), ElementsAre(1));
  }
}

TEST(Sampler, RowsBeyondTheVocabularyAreNeverDrawn) {
  const std::vector<float> logits = {1, 2, 9, kNan};
  EXPECT_EQ(Sampler({.temperature = 0}).sample(logits, {}, 2), 1);
  EXPECT_EQ(candidates(logits, {}, 2, {.temperature = 1}).size(), 2U);
}

std::vector<std::int32_t> draw(std::span<const float> logits, const SamplerOptions& options, int count) {
  Sampler sampler(options);
  std::vector<std::int32_t> out;
  for (int i = 0; i < count; ++i) out.push_back(sampler.sample(logits, {}, std::ssize(logits)));
  return out;
}

TEST(Sampler, TheSeedDecides) {
  const std::vector<float> flat(256, 0.0F);
  const auto first = draw(flat, {.temperature = 0.8F, .seed = 1}, 32);
  EXPECT_EQ(draw(flat, {.temperature = 0.8F, .seed = 1}, 32), first);
  EXPECT_NE(draw(flat, {.temperature = 0.8F, .seed = 2}, 32), first);
  EXPECT_EQ(draw(flat, {.temperature = 0, .seed = 1}, 32), draw(flat, {.temperature = 0, .seed = 2}, 32));
}

TEST(Sampler, DrawsFollowTheProbabilities) {
  std::vector<float> logits(1000, -20.0F);
  logits[700] = std::log(3.0F);
  logits[20] = 0.0F;
  int heavy = 0;
  for (const std::int32_t id : draw(logits, {.temperature = 1, .seed = 7}, 4000)) {
    ASSERT_TRUE(id == 700 || id == 20) << id;
    heavy += id == 700 ? 1 : 0;
  }
  EXPECT_NEAR(heavy, 3000, 150);  // 5 standard deviations
}

TEST(Logprobs, AreThoseOfTheModelAndSortedWithTiesToTheLowestId) {
  const std::vector<float> logits = {1, 3, 3, 2};
  const double total = std::log(std::exp(1.0) + 2 * std::exp(3.0) + std::exp(2.0));
  EXPECT_NEAR(logprob_of(logits, 3).logprob, 2 - total, 1e-6);
  const auto top = top_logprobs(logits, 3);
  ASSERT_EQ(top.size(), 3U);
  EXPECT_EQ(top[0].id, 1);
  EXPECT_EQ(top[1].id, 2);
  EXPECT_EQ(top[2].id, 3);
  EXPECT_NEAR(top[0].logprob, 3 - total, 1e-6);
  EXPECT_EQ(top_logprobs(logits, 99).size(), 4U);
  EXPECT_TRUE(top_logprobs(logits, 0).empty());
}

}  // namespace
}  // namespace pastkv::engine
