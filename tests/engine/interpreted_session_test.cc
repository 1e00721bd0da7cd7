// The session over the reference interpreter: golden models on it, and what it gives to inputs of every name.
#include "engine/interpreted_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/builder.h"
#include "models/golden.h"
#include "models/model.h"

namespace pastkv::engine {
namespace {

using graph::Dim;
using graph::Op;
using graph::Symbol;
using graph::ValueId;
using tensor::DType;
using test::Golden;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kTolerance = 1e-4;

std::span<const std::int32_t> part(const Golden& golden, std::int64_t begin, std::int64_t end) {
  return std::span(golden.ids).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
}

class GoldenInterpreted : public testing::TestWithParam<std::string> {};

TEST_P(GoldenInterpreted, PrefillAndStepsGiveTheReferencesLogits) {
  const Golden golden = test::load_golden(GetParam());
  const auto length = std::ssize(golden.ids);
  for (const auto& path : golden.models) {
    const models::Model model = models::open_model(path);
    for (const bool hold : {true, false}) {
      InterpretedSession session(model.graph, models::weight_reader(model),
                                 {.context = length, .vocab = golden.vocab, .hold_weights = hold});
      EXPECT_LT(test::relative_difference(session.forward(golden.ids, length), golden.logits), kTolerance);
      const std::int64_t kept = golden.from_scratch ? 0 : golden.prefill;
      EXPECT_EQ(session.truncate(kept), kept);
      if (golden.from_scratch) session.forward(part(golden, 0, golden.prefill));
      for (std::int64_t i = golden.prefill; i < length; ++i) {
        const auto last = session.forward(part(golden, i, i + 1), 1);
        EXPECT_LT(test::relative_difference(last, golden.step(i - golden.prefill)), kTolerance) << i;
      }
      EXPECT_THAT(std::vector<std::int32_t>(session.ids().begin(), session.ids().end()),
                  testing::ElementsAreArray(golden.ids));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenInterpreted,
                         testing::Values("llama", "llama_dynamic", "phi3_longrope", "gemma3", "qwen2", "openelm"),
                         [](const auto& test) { return test.param; });

// "Logits" that tell what each input was given: its numbers, summed up over the key positions where it has some.
graph::Graph telltale(const std::string& ids_name, const graph::Shape& mask_shape, const std::string& mask_name) {
  graph::Builder builder("telltale");
  const graph::Shape row = {1, Symbol::query};
  const graph::Shape column = {1, Symbol::query, 1};
  const auto numbers = [&](ValueId x) { return builder.emit(Op::cast, {x}, graph::CastAttributes{DType::f32})[0]; };
  const ValueId ids = builder.reshape(numbers(builder.input(ids_name, DType::i64, row)), column);
  const ValueId positions = builder.reshape(numbers(builder.input("position_ids", DType::i64, row)), column);
  const ValueId mask = builder.input(mask_name, DType::f32, mask_shape);
  const auto last = static_cast<int>(mask_shape.size()) - 1;
  const ValueId sums = builder.emit(Op::reduce_sum, {mask}, graph::AxisAttributes{last})[0];
  const Dim rows = mask_shape.size() > 2 ? mask_shape[mask_shape.size() - 2] : Dim(1);
  const ValueId spread =
      builder.emit(Op::expand, {builder.reshape(sums, {1, rows, 1})}, graph::ShapeAttributes{column})[0];
  builder.output(builder.emit(Op::concat, {ids, positions, spread}, graph::AxisAttributes{2})[0], "logits");
  return builder.finish();
}

std::vector<float> told(InterpretedSession& session, const std::vector<std::int32_t>& ids) {
  const auto logits = session.forward(ids, std::ssize(ids));
  return {logits.begin(), logits.end()};
}

const graph::WeightReader kNoWeights = [](const graph::Value&) { return std::vector<float>(); };
const Dim kEnd = Dim(Symbol::past) + Dim(Symbol::query);

TEST(InterpretedSession, GivesPositionsAndAMaskOfOnesAsLongAsPastAndQuery) {
  InterpretedSession session(telltale("input_ids", {1, kEnd}, "attention_mask"), kNoWeights,
                             {.context = 8, .vocab = 3});
  EXPECT_THAT(told(session, {1, 2}), ElementsAre(1, 0, 2, 2, 1, 2));
  EXPECT_THAT(told(session, {0}), ElementsAre(0, 2, 3));
}

TEST(InterpretedSession, ACausalMaskHidesWhatComesLater) {
  InterpretedSession session(telltale("inputIds", {1, 1, Symbol::query, kEnd}, "causalMask"), kNoWeights,
                             {.context = 8, .vocab = 3});
  const float unseen = -65504;
  EXPECT_THAT(told(session, {0, 1, 2}), ElementsAre(0, 0, 2 * unseen, 1, 1, unseen, 2, 2, 0));
  EXPECT_THAT(told(session, {1, 2}), ElementsAre(1, 3, unseen, 2, 4, 0));
  EXPECT_THAT(told(session, {0}), ElementsAre(0, 5, 0));
}

TEST(InterpretedSession, ACausalMaskOfOneRowHidesNothing) {
  InterpretedSession session(telltale("inputIds", {1, 1, 1, kEnd}, "causalMask"), kNoWeights,
                             {.context = 8, .vocab = 3});
  EXPECT_THAT(told(session, {1, 2}), ElementsAre(1, 0, 0, 2, 1, 0));
}

TEST(InterpretedSession, OnlyTheRowsAskedForAreGivenAndTheyAreTheLast) {
  InterpretedSession session(telltale("input_ids", {1, kEnd}, "attention_mask"), kNoWeights,
                             {.context = 8, .vocab = 3});
  EXPECT_EQ(session.forward(std::vector<std::int32_t>{1, 2}, 0).size(), 0U);
  const auto logits = session.forward(std::vector<std::int32_t>{0, 1, 2}, 2);
  EXPECT_THAT(std::vector<float>(logits.begin(), logits.end()), ElementsAre(1, 3, 5, 2, 4, 5));
}

TEST(InterpretedSession, WhatCannotBeFedOrHeldIsRefused) {
  const auto refusal = [](const graph::Graph& graph, std::int64_t context) -> std::string {
    try {
      InterpretedSession session(graph, kNoWeights, {.context = context, .vocab = 3});
      session.forward(std::vector<std::int32_t>{1, 2, 0});
      session.forward(std::vector<std::int32_t>{3});
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_THAT(refusal(telltale("pixels", {1, kEnd}, "attention_mask"), 8), HasSubstr("input pixels"));
  EXPECT_THAT(refusal(telltale("input_ids", {1, kEnd}, "attention_mask"), 0), HasSubstr("context: is 0"));
  EXPECT_THAT(refusal(telltale("input_ids", {1, kEnd}, "attention_mask"), 2), HasSubstr("do not fit a context of 2"));
  EXPECT_THAT(refusal(telltale("input_ids", {1, kEnd}, "attention_mask"), 8), HasSubstr("vocabulary of 3"));
}

}  // namespace
}  // namespace pastkv::engine
