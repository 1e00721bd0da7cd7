// The engine on every golden model: each kernel set the machine has, prefill in chunks of any size, cached steps, and
// what a session promises about its cache.
#include "engine/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/variant.h"
#include "models/golden.h"

namespace pastkv::engine {
namespace {

using test::Golden;

constexpr double kTolerance = 1e-4;

std::vector<const KernelSet*> available_kernel_sets() {
  std::vector<const KernelSet*> sets;
  for (const KernelSet* set : kernel_sets()) {
    if (set->available()) sets.push_back(set);
  }
  return sets;
}

EngineSession session_of(const Engine& engine, std::int64_t context, std::int64_t chunk = 512,
                         tensor::DType type = tensor::DType::f32) {
  return EngineSession(engine, {.context = context, .cache_type = type, .chunk = chunk});
}

std::vector<float> copy(std::span<const float> logits) {
  return {logits.begin(), logits.end()};
}

std::span<const std::int32_t> part(const Golden& golden, std::int64_t begin, std::int64_t end) {
  return std::span(golden.ids).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
}

std::int64_t length(const Golden& golden) {
  return static_cast<std::int64_t>(golden.ids.size());
}

class GoldenEngine : public testing::TestWithParam<std::string> {
 protected:
  template <class Check>
  void for_each_engine(Check check) {
    const Golden golden = test::load_golden(GetParam());
    for (const auto& path : golden.models) {
      const models::Model model = models::open_model(path);
      for (const KernelSet* kernels : available_kernel_sets()) {
        SCOPED_TRACE(path.filename().string() + " " + std::string(kernels->name));
        const Engine engine(model, {.threads = 2, .kernels = kernels});
        check(golden, engine);
      }
    }
  }
};

TEST_P(GoldenEngine, PrefillInChunksOfAnySizeGivesTheReferencesLogits) {
  for_each_engine([](const Golden& golden, const Engine& engine) {
    for (const std::int64_t chunk : {std::int64_t{1}, std::int64_t{3}, std::int64_t{7}, length(golden)}) {
      SCOPED_TRACE(chunk);
      EngineSession session = session_of(engine, length(golden), chunk);
      EXPECT_LT(test::relative_difference(session.forward(golden.ids, length(golden)), golden.logits), kTolerance);
      EXPECT_EQ(session.past_length(), length(golden));
    }
  });
}

TEST_P(GoldenEngine, CallsOfAnySizeGiveTheReferencesLogits) {
  for_each_engine([](const Golden& golden, const Engine& engine) {
    for (const std::int64_t size : {1, 3, 7}) {
      SCOPED_TRACE(size);
      EngineSession session = session_of(engine, length(golden));
      for (std::int64_t begin = 0; begin < length(golden); begin += size) {
        const std::int64_t end = std::min(begin + size, length(golden));
        const auto last = session.forward(part(golden, begin, end), 1);
        if (golden.from_scratch && end <= golden.prefill) continue;
        const auto wanted = golden.from_scratch ? golden.step(end - golden.prefill - 1) : golden.row(end - 1);
        EXPECT_LT(test::relative_difference(last, wanted), kTolerance) << "position " << end - 1;
      }
    }
  });
}

TEST_P(GoldenEngine, StepsOnACacheGiveTheReferencesLogits) {
  for_each_engine([](const Golden& golden, const Engine& engine) {
    EngineSession session = session_of(engine, length(golden));
    session.forward(part(golden, 0, golden.prefill), 1);
    for (std::int64_t position = golden.prefill; position < length(golden); ++position) {
      const auto last = session.forward(part(golden, position, position + 1), 1);
      EXPECT_LT(test::relative_difference(last, golden.step(position - golden.prefill)), kTolerance) << position;
    }
  });
}

// The last layer computes only the rows asked for; which ones must not change what they say.
TEST_P(GoldenEngine, OnlyTheRowsAskedForAreGivenAndTheyAreTheLast) {
  for_each_engine([](const Golden& golden, const Engine& engine) {
    for (const std::int64_t rows : {std::int64_t{0}, std::int64_t{1}, std::int64_t{5}}) {
      for (const std::int64_t chunk : {std::int64_t{4}, length(golden)}) {
        EngineSession session = session_of(engine, length(golden), chunk);
        const auto got = session.forward(golden.ids, rows);
        ASSERT_EQ(static_cast<std::int64_t>(got.size()), rows * golden.vocab);
        const auto wanted = std::span(golden.logits).last(static_cast<std::size_t>(rows * golden.vocab));
        if (rows > 0) {
          EXPECT_LT(test::relative_difference(got, wanted), kTolerance) << rows << " rows, chunk " << chunk;
        }
      }
    }
  });
}

TEST_P(GoldenEngine, ThreadsAndCapacityChangeNothing) {
  const Golden golden = test::load_golden(GetParam());
  const models::Model model = models::open_model(golden.models.front());
  std::vector<float> first;
  for (const int threads : {1, 2, 3}) {
    const Engine engine(model, {.threads = threads});
    EXPECT_EQ(engine.threads(), threads);
    for (const std::int64_t context : {length(golden), length(golden) + 100}) {
      EngineSession session = session_of(engine, context);
      const std::vector<float> got = copy(session.forward(golden.ids, length(golden)));
      if (first.empty()) first = got;
      EXPECT_EQ(got, first) << threads << " threads, context " << context;
    }
  }
}

TEST_P(GoldenEngine, SmallerCacheTypesStayNear) {
  const Golden golden = test::load_golden(GetParam());
  const models::Model model = models::open_model(golden.models.front());
  const Engine engine(model, {.threads = 1});
  const std::pair<tensor::DType, double> types[] = {{tensor::DType::f16, 2e-2}, {tensor::DType::bf16, 2e-1}};
  for (const auto& [type, tolerance] : types) {
    EngineSession session = session_of(engine, length(golden), 5, type);
    EXPECT_LT(test::relative_difference(session.forward(golden.ids, length(golden)), golden.logits), tolerance)
        << tensor::name(type);
  }
}

// After a cut the session answers as if the rest had never been there, or says that it must begin anew.
TEST_P(GoldenEngine, ACutCacheIsAsGoodAsACold) {
  for_each_engine([](const Golden& golden, const Engine& engine) {
    if (golden.from_scratch) return;
    for (const std::int64_t keep : {std::int64_t{0}, std::int64_t{2}, length(golden) / 2, length(golden) - 1}) {
      for (const std::int64_t chunk : {2, 64}) {
        EngineSession session = session_of(engine, 2 * length(golden), chunk);
        session.forward(golden.ids, 1);
        const std::int64_t kept = session.truncate(keep);
        ASSERT_TRUE(kept == keep || kept == 0) << kept;
        EXPECT_EQ(session.past_length(), kept);
        EXPECT_EQ(static_cast<std::int64_t>(session.ids().size()), kept);
        const auto last = session.forward(part(golden, kept, length(golden)), 1);
        EXPECT_LT(test::relative_difference(last, golden.row(length(golden) - 1)), kTolerance) << "kept " << kept;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenEngine, testing::ValuesIn(test::golden_names()),
                         [](const auto& tested) { return tested.param; });

// What is said of a model before it runs is what its cache takes.
TEST_P(GoldenEngine, StatesTakeTheBytesThatAreForetold) {
  for_each_engine([](const Golden& golden, const Engine& engine) {
    for (const std::int64_t context : {length(golden), std::int64_t{100}}) {
      for (const std::int64_t chunk : {2, 64}) {
        const auto foretold = graph::state_bytes(engine.model().graph, context, chunk, tensor::DType::f32);
        const auto taken = session_of(engine, context, chunk).state_bytes();
        EXPECT_GE(taken, foretold);
        EXPECT_LE(taken, foretold + 64 * engine.model().graph.states.size());  // each begins on a line of its own
      }
    }
  });
}

class SessionTest : public testing::Test {
 protected:
  Golden golden_ = test::load_golden("llama");
  models::Model model_ = models::open_model(golden_.models.front());
  Engine engine_{model_, {.threads = 2}};
};

TEST_F(SessionTest, TwoSessionsSideBySideDoNotDisturbEachOther) {
  EngineSession one = session_of(engine_, 64);
  EngineSession other = session_of(engine_, 64);
  std::vector<std::int32_t> reversed(golden_.ids.rbegin(), golden_.ids.rend());
  for (std::size_t i = 0; i < golden_.ids.size(); ++i) {
    const auto logits = one.forward({&golden_.ids[i], 1});
    EXPECT_LT(test::relative_difference(logits, golden_.row(static_cast<std::int64_t>(i))), kTolerance) << i;
    other.forward({&reversed[i], 1});
  }
}

template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(SessionTest, WhatDoesNotFitTheContextIsRefusedWithBothNumbers) {
  EngineSession session = session_of(engine_, 8);
  const std::vector<std::int32_t> nine(9, 1);
  EXPECT_THAT(error_of([&] { session.forward(nine); }),
              testing::AllOf(testing::HasSubstr("9"), testing::HasSubstr("8")));
  EXPECT_EQ(session.past_length(), 0);
  session.forward(std::span(nine).first(8));
  EXPECT_THAT(error_of([&] { session.forward(std::span(nine).first(1)); }), testing::HasSubstr("8"));
}

TEST_F(SessionTest, IdsOutsideTheVocabularyAreRefused) {
  EngineSession session = session_of(engine_, 8);
  for (const std::int32_t bad : {-1, static_cast<std::int32_t>(session.vocab()), 2147483647}) {
    EXPECT_THAT(error_of([&] { session.forward({&bad, 1}); }), testing::HasSubstr("outside the vocabulary"));
  }
}

TEST_F(SessionTest, NothingIsRefused) {
  EngineSession session = session_of(engine_, 8);
  EXPECT_THAT(error_of([&] { session.forward({}); }), testing::HasSubstr("no tokens"));
}

TEST_F(SessionTest, OptionsOutOfRangeAreRefusedByName) {
  EXPECT_THAT(error_of([&] { session_of(engine_, -5); }), testing::HasSubstr("context"));
  EXPECT_THAT(error_of([&] { session_of(engine_, 8, 0); }), testing::HasSubstr("chunk"));
  EXPECT_THAT(error_of([&] { session_of(engine_, 8, 8, tensor::DType::q4_0); }), testing::HasSubstr("q4_0"));
}

TEST_F(SessionTest, AContextThatDoesNotFitMemoryIsRefused) {
  for (const std::int64_t context : {std::int64_t{1} << 40, std::int64_t{1} << 62}) {
    EXPECT_THAT(error_of([&] { session_of(engine_, context); }), testing::HasSubstr("free"));
  }
}

TEST_F(SessionTest, ACutIsClampedAndANegativeOneRefused) {
  EngineSession session = session_of(engine_, 64);
  session.forward(golden_.ids);
  EXPECT_EQ(session.truncate(100), length(golden_));
  EXPECT_THAT(error_of([&] { session.truncate(-5); }), testing::HasSubstr("-5"));
  EXPECT_EQ(session.past_length(), length(golden_));
}

TEST_F(SessionTest, WindowLayersHoldTheirWindow) {
  const Golden golden = test::load_golden("mistral_window");
  const models::Model model = models::open_model(golden.models.front());
  const Engine engine(model, {.threads = 1});
  const EngineSession small = session_of(engine, 10'000, 8);
  const EngineSession large = session_of(engine, 1'000'000, 8);
  EXPECT_EQ(small.state_bytes(), large.state_bytes());
}

}  // namespace
}  // namespace pastkv::engine
