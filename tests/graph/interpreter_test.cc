#include "graph/interpreter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tensor/codec.h"
#include "toy.h"

namespace pastkv::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Interpreter interpreter_of(const ToyOptions& options, Interpreter::Options how = {}) {
  return Interpreter(toy_decoder(options), random_weights(), how);
}

std::vector<float> part(const std::vector<float>& all, std::size_t begin, std::size_t end) {
  return {all.begin() + static_cast<std::ptrdiff_t>(begin), all.begin() + static_cast<std::ptrdiff_t>(end)};
}

TEST(Interpreter, GivesTheSameLogitsInChunksOfAnySize) {
  const std::vector<int> ids = some_ids(13);
  for (const ToyOptions& options : varied_decoders()) {
    Interpreter whole = interpreter_of(options);
    const std::vector<float> wanted = run_in_chunks(whole, ids, {13});
    for (const std::vector<std::size_t>& chunks :
         {std::vector<std::size_t>{1}, {2}, {3}, {4}, {5}, {8}, {7, 1}, {1, 12}}) {
      Interpreter chunked = interpreter_of(options);
      EXPECT_LT(largest_difference(run_in_chunks(chunked, ids, chunks), wanted), 2e-6F);
      EXPECT_EQ(chunked.past_length(), 13);
    }
  }
}

void expect_stale(Interpreter& interpreter, const std::map<std::string, Tensor>& inputs) {
  try {
    interpreter.run(inputs, 1);
    ADD_FAILURE() << "ran on states of another rope table";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("reset the states"));
  }
}

TEST(Interpreter, RefusesStatesOfAnotherRopeTable) {
  const std::vector<int> ids = some_ids(8);
  for (const RopeAttributes& rope : {two_table_rope(6, 7), dynamic_rope(6, 7)}) {
    Interpreter interpreter = interpreter_of({.rope = rope});
    run_in_chunks(interpreter, some_ids(7), {6, 1});  // up to the switch, one table
    expect_stale(interpreter, toy_inputs({{1}}, 7));
    EXPECT_EQ(interpreter.past_length(), 7);
    interpreter.reset();
    run_in_chunks(interpreter, ids, {8});
    interpreter.truncate(3);  // the keys that are left were made by the table of 8
    expect_stale(interpreter, toy_inputs({{1}}, 3));
    interpreter.truncate(0);
    interpreter.run(toy_inputs({{1}}, 0), 1);
  }
}

TEST(Interpreter, GoesOnUnderTheLongTable) {
  const std::vector<int> ids = some_ids(12);
  Interpreter stepped = interpreter_of({.rope = two_table_rope(6, 7)});
  Interpreter whole = interpreter_of({.rope = two_table_rope(6, 7)});
  Interpreter plain = interpreter_of({});
  const std::vector<float> wanted = run_in_chunks(whole, ids, {12});
  EXPECT_LT(largest_difference(run_in_chunks(stepped, ids, {8, 1}), wanted), 2e-6F);
  EXPECT_GT(largest_difference(run_in_chunks(plain, ids, {12}), wanted), 1e-2F);
}

TEST(Interpreter, ShowsAWindowNoMoreThanTheWindow) {
  const ToyOptions options{.windows = {5, 5}};
  std::vector<int> ids = some_ids(12);
  Interpreter first = interpreter_of(options);
  const std::vector<float> before = run_in_chunks(first, ids, {12});
  ids[0] = (ids[0] + 1) % 23;
  Interpreter second = interpreter_of(options);
  const std::vector<float> after = run_in_chunks(second, ids, {12});
  // Two layers reach 2 * (5 - 1) back: position 8 still feels token 0, position 9 does not.
  EXPECT_NE(part(before, 8 * 23, 9 * 23), part(after, 8 * 23, 9 * 23));
  EXPECT_EQ(part(before, 9 * 23, 12 * 23), part(after, 9 * 23, 12 * 23));
}

TEST(Interpreter, RunsEachSequenceOfABatchAsIfAlone) {
  const std::vector<int> a = some_ids(6);
  const std::vector<int> b = {5, 5, 1, 22, 0, 9};
  Interpreter both = interpreter_of({.windows = {3, 0}});
  Interpreter alone = interpreter_of({.windows = {3, 0}});
  both.run(toy_inputs({b, a}, 0), 6);
  alone.run(toy_inputs({a}, 0), 6);
  const auto pair = both.run(toy_inputs({{1, 2}, {3, 4}}, 6), 2).at("logits");
  const auto single = alone.run(toy_inputs({{3, 4}}, 6), 2).at("logits");
  EXPECT_THAT(pair.shape, ElementsAre(2, 2, 23));
  EXPECT_EQ(part(pair.data, 2 * 23, 4 * 23), single.data);
}

TEST(Interpreter, GivesTheRowsAskedFor) {
  const std::vector<int> ids = some_ids(6);
  Interpreter all = interpreter_of({});
  Interpreter two = interpreter_of({});
  Interpreter none = interpreter_of({});
  const auto six = all.run(toy_inputs({ids}, 0), 6).at("logits");
  const auto last = two.run(toy_inputs({ids}, 0), 2).at("logits");
  EXPECT_EQ(part(six.data, 4 * 23, 6 * 23), last.data);
  EXPECT_THAT(none.run(toy_inputs({ids}, 0), 0).at("logits").shape, ElementsAre(1, 0, 23));
}

TEST(Interpreter, GoesOnFromATruncatedCacheAsIfTheRestWasNeverThere) {
  for (const ToyOptions& options : varied_decoders()) {
    const std::vector<int> ids = some_ids(9);
    Interpreter straight = interpreter_of(options);
    Interpreter turned_back = interpreter_of(options);
    run_in_chunks(straight, {ids.begin(), ids.begin() + 5}, {5});
    run_in_chunks(turned_back, {ids.begin(), ids.begin() + 5}, {5});
    run_in_chunks(turned_back, {1, 2, 3}, {3});
    turned_back.truncate(5);
    EXPECT_EQ(turned_back.past_length(), 5);
    const std::vector<int> rest(ids.begin() + 5, ids.end());
    EXPECT_EQ(run_in_chunks(turned_back, rest, {4}), run_in_chunks(straight, rest, {4}));
  }
}

TEST(Interpreter, ForgetsEverythingOnReset) {
  const std::vector<int> ids = some_ids(5);
  Interpreter interpreter = interpreter_of({});
  const std::vector<float> first = run_in_chunks(interpreter, ids, {5});
  interpreter.reset();
  EXPECT_EQ(interpreter.past_length(), 0);
  EXPECT_EQ(run_in_chunks(interpreter, ids, {5}), first);
  interpreter.truncate(0);
  interpreter.run(toy_inputs({ids, ids}, 0), 1);  // another batch, as nothing is left
  EXPECT_EQ(interpreter.past_length(), 5);
}

TEST(Interpreter, ReadsEachWeightOnce) {
  std::map<std::string, int> reads;
  const auto counting = [&](const Value& weight) {
    ++reads[weight.name];
    return random_weights()(weight);
  };
  Interpreter interpreter(toy_decoder({.tied = true}), counting, {});
  run_in_chunks(interpreter, some_ids(5), {1});
  EXPECT_EQ(reads.size(), 20U);  // 9 per layer, the embedding and the last norm
  for (const auto& [name, count] : reads) EXPECT_EQ(count, 1) << name;
}

TEST(Interpreter, RoundsEveryResultToF16) {
  const std::vector<int> ids = some_ids(9);
  Interpreter exact = interpreter_of({});
  Interpreter rounded = interpreter_of({}, {.round_to_f16 = true});
  const std::vector<float> wanted = run_in_chunks(exact, ids, {5, 1});
  const std::vector<float> logits = run_in_chunks(rounded, ids, {5, 1});
  for (const float logit : logits) EXPECT_EQ(logit, tensor::f16_to_f32(tensor::f32_to_f16(logit)));
  EXPECT_GT(largest_difference(logits, wanted), 0.0F);
  EXPECT_LT(largest_difference(logits, wanted), 0.02F);
}

// What run() refuses, and that the states are as they were before.
void expect_refused(Interpreter& interpreter, const std::map<std::string, Tensor>& inputs, std::int64_t rows,
                    const std::string& reason) {
  const std::int64_t past = interpreter.past_length();
  try {
    interpreter.run(inputs, rows);
    ADD_FAILURE() << "ran; wants: " << reason;
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(reason));
  }
  EXPECT_EQ(interpreter.past_length(), past);
}

TEST(Interpreter, RefusesWhatDoesNotFitAndKeepsItsStates) {
  Interpreter untouched = interpreter_of({});
  Interpreter interpreter = interpreter_of({});
  run_in_chunks(untouched, some_ids(4), {4});
  run_in_chunks(interpreter, some_ids(4), {4});

  auto inputs = toy_inputs({{1, 2}}, 4);
  inputs.erase("position_ids");
  expect_refused(interpreter, inputs, 1, "position_ids: is missing");
  inputs = toy_inputs({{1, 2}}, 4);
  inputs["mask"] = inputs["input_ids"];
  expect_refused(interpreter, inputs, 1, "mask: is no input");
  inputs = toy_inputs({{1, 2}}, 4);
  inputs["position_ids"].shape = {1, 3};
  expect_refused(interpreter, inputs, 1, "[1, 3]");
  inputs = toy_inputs({{1, 2}}, 4);
  inputs["input_ids"].data.pop_back();
  expect_refused(interpreter, inputs, 1, "with 1 numbers");
  expect_refused(interpreter, toy_inputs({{}}, 4), 0, "at least 1");
  expect_refused(interpreter, toy_inputs({{1, 2}}, 4), 3, "3 rows");
  expect_refused(interpreter, toy_inputs({{1, 2}}, 4), -1, "-1 rows");
  expect_refused(interpreter, toy_inputs({{1, 23}}, 4), 1, "index 23 is outside a table of 23 rows");
  expect_refused(interpreter, toy_inputs({{1, -1}}, 4), 1, "index -1");
  expect_refused(interpreter, toy_inputs({{1}, {2}}, 4), 1, "batch 2");
  EXPECT_THROW(interpreter.truncate(5), Error);
  EXPECT_THROW(interpreter.truncate(-1), Error);

  EXPECT_EQ(run_in_chunks(interpreter, {3, 4}, {2}), run_in_chunks(untouched, {3, 4}, {2}));
}

TEST(Interpreter, RefusesAWeightOfAnotherSize) {
  const auto short_by_one = [](const Value& weight) {
    std::vector<float> data = random_weights()(weight);
    data.pop_back();
    return data;
  };
  Interpreter interpreter(toy_decoder({}), short_by_one, {});
  expect_refused(interpreter, toy_inputs({{1}}, 0), 1, "embedding.weight: 275 numbers");
}

}  // namespace
}  // namespace pastkv::graph
