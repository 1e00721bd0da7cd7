// Models in the spelling of other files: against what llama.cpp's converter wrote, and by the logits they give.
#include "models/spelling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "models/golden.h"
#include "tensor/codec.h"

namespace pastkv::models {
namespace {

using formats::TensorEntry;
using test::Golden;
using testing::ElementsAre;

std::vector<float> numbers_of(const WeightRows& rows) {
  std::vector<float> numbers(rows.elements());
  const auto width = static_cast<std::size_t>(rows.width());
  for (std::int64_t row = 0; row < rows.rows(); ++row) {
    const auto out = std::span(numbers).subspan(static_cast<std::size_t>(row) * width, width);
    rows.decode_row(row, out);
    if (!rows.is_copy()) continue;
    std::vector<float> copied(width);
    tensor::decode_row(rows.stored_type(), rows.row_bytes(row), copied);
    EXPECT_TRUE(std::ranges::equal(copied, out)) << rows.name << " row " << row;
  }
  return numbers;
}

std::vector<float> numbers_of(const TensorEntry& entry) {
  std::vector<float> numbers(static_cast<std::size_t>(entry.elements()));
  tensor::decode_row(entry.dtype, entry.bytes, numbers);
  return numbers;
}

std::vector<std::string> models_with_both_spellings() {
  std::vector<std::string> names;
  for (const std::string& name : test::golden_names()) {
    if (test::load_golden(name).models.size() == 2) names.push_back(name);
  }
  return names;
}

// The weights of `source` in the other spelling, against those of `other`.
void expect_same_weights(const Model& source, const Model& other, bool exact) {
  std::map<std::string, const TensorEntry*> wanted;
  for (const TensorEntry& entry : other.tensors().tensors()) {
    if (!entry.name.starts_with("rope_f")) wanted[entry.name] = &entry;
  }
  for (const WeightRows& rows : spell(source, spelling_of(other))) {
    SCOPED_TRACE(rows.name);
    ASSERT_TRUE(wanted.contains(rows.name));
    const TensorEntry& entry = *wanted.at(rows.name);
    EXPECT_EQ(rows.shape, entry.shape);
    const std::vector<float> got = numbers_of(rows);
    const std::vector<float> numbers = numbers_of(entry);
    ASSERT_EQ(got.size(), numbers.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], numbers[i], exact ? 0.0F : 1e-6F) << i;
    }
    wanted.erase(rows.name);
  }
  EXPECT_TRUE(wanted.empty()) << wanted.begin()->first;
}

class BothSpellings : public testing::TestWithParam<std::string> {};

TEST_P(BothSpellings, EachIsMadeFromTheOther) {
  const Golden golden = test::load_golden(GetParam());
  const Model hf = open_model(golden.models.at(0));
  const Model gguf = open_model(golden.models.at(1));
  expect_same_weights(hf, gguf, true);
  expect_same_weights(gguf, hf, false);  // (1 + w) - 1 rounds
}

INSTANTIATE_TEST_SUITE_P(Models, BothSpellings, testing::ValuesIn(models_with_both_spellings()),
                         [](const auto& tested) { return tested.param; });

class EverySpelling : public testing::TestWithParam<std::string> {};

TEST_P(EverySpelling, TheCanonicalModelGivesTheReferencesLogits) {
  const Golden golden = test::load_golden(GetParam());
  for (const auto& path : golden.models) {
    SCOPED_TRACE(path.filename().string());
    const Model model = open_model(path);
    const CanonicalModel same = canonical(model);
    for (const graph::RopeAttributes& rope : same.config.ropes) EXPECT_FALSE(rope.interleaved);
    graph::Interpreter interpreter(same.graph, weight_reader(same), {});
    const auto count = static_cast<std::int64_t>(golden.ids.size());
    graph::Tensor ids{.shape = {1, count}, .data = {golden.ids.begin(), golden.ids.end()}};
    graph::Tensor positions = ids;
    std::iota(positions.data.begin(), positions.data.end(), 0.0F);
    const auto outputs = interpreter.run({{"input_ids", ids}, {"position_ids", positions}}, count);
    EXPECT_LT(test::relative_difference(outputs.at("logits").data, golden.logits), 1e-4);
  }
}

TEST_P(EverySpelling, TheOwnSpellingIsWhatTheFileHolds) {
  for (const auto& path : test::load_golden(GetParam()).models) {
    const Model model = open_model(path);
    for (const WeightRows& rows : spell(model, spelling_of(model))) {
      EXPECT_TRUE(rows.is_copy());
      EXPECT_EQ(rows.parts.size(), 1U);
      EXPECT_TRUE(rows.parts.front()->name.ends_with(rows.name)) << rows.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EverySpelling, testing::ValuesIn(test::golden_names()),
                         [](const auto& tested) { return tested.param; });

// Rows labelled by their numbers: 4 per head, of which `rotary_dim` rotate.
TensorEntry labelled(const std::vector<float>& numbers, std::vector<std::int64_t> shape) {
  return {.name = "labels",
          .dtype = tensor::DType::f32,
          .shape = std::move(shape),
          .bytes = std::as_bytes(std::span(numbers)),
          .file = nullptr};
}

TEST(RowOrder, HalvesOfEachHeadAreInterleavedAndBack) {
  const std::vector<float> numbers = {0, 1, 2, 3, 4, 5, 6, 7};
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{8, 1}, {8}}) {  // a matrix, a bias
    const TensorEntry entry = labelled(numbers, shape);
    WeightRows rows;
    rows.shape = shape;
    rows.parts = {&entry};
    rows.head_dim = 4;
    rows.rotary_dim = 4;
    rows.order = RowOrder::pairs_from_halves;
    EXPECT_THAT(numbers_of(rows), ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
    EXPECT_EQ(rows.is_copy(), shape.size() == 2);
    rows.head_dim = 8;
    rows.rotary_dim = 8;
    EXPECT_THAT(numbers_of(rows), ElementsAre(0, 4, 1, 5, 2, 6, 3, 7));
    rows.order = RowOrder::halves_from_pairs;
    EXPECT_THAT(numbers_of(rows), ElementsAre(0, 2, 4, 6, 1, 3, 5, 7));
    rows.rotary_dim = 4;  // the rest of the head stays
    EXPECT_THAT(numbers_of(rows), ElementsAre(0, 2, 1, 3, 4, 5, 6, 7));
  }
}

TEST(WeightRows, PartsFollowOneAnotherAndSlicesAreCutOut) {
  const std::vector<float> first = {0, 1, 2, 3};
  const std::vector<float> second = {4, 5};
  for (const std::int64_t width : {1, 2}) {
    const bool matrix = width > 1;
    const TensorEntry a = labelled(first, matrix ? std::vector<std::int64_t>{2, 2} : std::vector<std::int64_t>{4});
    const TensorEntry b = labelled(second, matrix ? std::vector<std::int64_t>{1, 2} : std::vector<std::int64_t>{2});
    WeightRows joined;
    joined.shape = matrix ? std::vector<std::int64_t>{3, 2} : std::vector<std::int64_t>{6};
    joined.parts = {&a, &b};
    EXPECT_THAT(numbers_of(joined), ElementsAre(0, 1, 2, 3, 4, 5));
    WeightRows slice;
    slice.shape = matrix ? std::vector<std::int64_t>{1, 2} : std::vector<std::int64_t>{2};
    slice.parts = {&a};
    slice.first_row = matrix ? 1 : 2;
    slice.row_count = slice.shape.front();
    EXPECT_THAT(numbers_of(slice), ElementsAre(2, 3));
    slice.added = 1;
    EXPECT_THAT(numbers_of(slice), ElementsAre(3, 4));
    EXPECT_FALSE(slice.is_copy());
  }
}

}  // namespace
}  // namespace pastkv::models
