// Every golden model, in each spelling, run by the reference interpreter: whole, in chunks, and step by step.
#include "models/golden.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/expand.h"
#include "graph/interpreter.h"
#include "graph/rope.h"
#include "models/model.h"

namespace pastkv::models {
namespace {

using test::Golden;

constexpr double kTolerance = 1e-4;

// Feeds ids to an interpreter, and starts over when what its states hold no longer serves.
class Runner {
 public:
  explicit Runner(const Model& model) : Runner(model, model.graph) {}
  // `run`: the model's graph in another form.
  Runner(const Model& model, graph::Graph run)
      : graph_(model.graph), interpreter_(std::move(run), weight_reader(model), {}) {}

  // Logits of the last `rows` of ids[0, end), the first of which may have been run before.
  std::vector<float> run_to(const std::vector<std::int32_t>& ids, std::int64_t end, std::int64_t rows) {
    const std::int64_t past = interpreter_.past_length();
    if (graph::rope_changes(graph_, past, end)) interpreter_.reset();
    const std::int64_t begin = interpreter_.past_length();
    graph::Tensor tokens{.shape = {1, end - begin}, .data = {}};
    graph::Tensor positions = tokens;
    for (std::int64_t i = begin; i < end; ++i) {
      tokens.data.push_back(static_cast<float>(ids[static_cast<std::size_t>(i)]));
      positions.data.push_back(static_cast<float>(i));
    }
    auto outputs = interpreter_.run({{"input_ids", tokens}, {"position_ids", positions}}, rows);
    return std::move(outputs.at("logits").data);
  }

 private:
  graph::Graph graph_;
  graph::Interpreter interpreter_;
};

class GoldenModel : public testing::TestWithParam<std::string> {
 protected:
  // Runs `check` once for each spelling of the model.
  template <class Check>
  void for_each_spelling(Check check) {
    const Golden golden = test::load_golden(GetParam());
    for (const auto& path : golden.models) {
      SCOPED_TRACE(path.filename().string());
      const Model model = open_model(path);
      check(golden, model);
    }
  }
};

TEST_P(GoldenModel, PrefillGivesTheReferencesLogits) {
  for_each_spelling([](const Golden& golden, const Model& model) {
    const auto count = static_cast<std::int64_t>(golden.ids.size());
    Runner runner(model);
    EXPECT_LT(test::relative_difference(runner.run_to(golden.ids, count, count), golden.logits), kTolerance);
  });
}

TEST_P(GoldenModel, ChunksGiveTheLogitsOfTheWhole) {
  for_each_spelling([](const Golden& golden, const Model& model) {
    const auto count = static_cast<std::int64_t>(golden.ids.size());
    for (const std::int64_t chunk : {1, 3, 7}) {
      SCOPED_TRACE(chunk);
      Runner runner(model);
      std::vector<float> got;
      std::vector<float> wanted;
      for (std::int64_t begin = 0; begin < count; begin += chunk) {
        const std::int64_t end = std::min(begin + chunk, count);
        if (golden.from_scratch) {
          const std::vector<float> last = runner.run_to(golden.ids, end, 1);
          if (end <= golden.prefill) continue;
          got.insert(got.end(), last.begin(), last.end());
          const auto step = golden.step(end - golden.prefill - 1);
          wanted.insert(wanted.end(), step.begin(), step.end());
        } else {
          const std::vector<float> rows = runner.run_to(golden.ids, end, end - begin);
          got.insert(got.end(), rows.begin(), rows.end());
        }
      }
      if (!golden.from_scratch) wanted = golden.logits;
      EXPECT_LT(test::relative_difference(got, wanted), kTolerance);
    }
  });
}

TEST_P(GoldenModel, StepsOnACacheGiveTheReferencesLogits) {
  for_each_spelling([](const Golden& golden, const Model& model) {
    const auto count = static_cast<std::int64_t>(golden.ids.size());
    Runner runner(model);
    runner.run_to(golden.ids, golden.prefill, 1);
    std::vector<float> got;
    for (std::int64_t end = golden.prefill + 1; end <= count; ++end) {
      const std::vector<float> last = runner.run_to(golden.ids, end, 1);
      got.insert(got.end(), last.begin(), last.end());
    }
    EXPECT_LT(test::relative_difference(got, golden.step_logits), kTolerance);
  });
}

TEST_P(GoldenModel, TheExpandedGraphGivesTheSame) {
  for_each_spelling([](const Golden& golden, const Model& model) {
    const auto count = static_cast<std::int64_t>(golden.ids.size());
    const graph::Graph expanded = graph::expand(model.graph);
    Runner whole(model, expanded);
    EXPECT_LT(test::relative_difference(whole.run_to(golden.ids, count, count), golden.logits), kTolerance);
    Runner steps(model, expanded);
    steps.run_to(golden.ids, golden.prefill, 1);
    std::vector<float> got;
    for (std::int64_t end = golden.prefill + 1; end <= count; ++end) {
      const std::vector<float> last = steps.run_to(golden.ids, end, 1);
      got.insert(got.end(), last.begin(), last.end());
    }
    EXPECT_LT(test::relative_difference(got, golden.step_logits), kTolerance);
  });
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenModel, testing::ValuesIn(test::golden_names()),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace pastkv::models
