// Every golden model, written as a Core ML package, read back, and run by the reference interpreter as its two callers
// run it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

#include "graph/interpreter.h"
#include "models/golden.h"
#include "models/model.h"
#include "targets/coreml/import.h"
#include "targets/coreml/write.h"

namespace pastkv::targets {
namespace {

namespace fs = std::filesystem;
using test::Golden;

constexpr std::int64_t kContext = 64;

class TestFolder {
 public:
  TestFolder() {
    std::string name = testing::TempDir() + "pastkv_coreml_XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~TestFolder() { fs::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// The Python runner passes a true mask of the width of all tokens; the Swift one zeros of height 1, one wider than the
// tokens, so that it never writes the first slot.
enum class Caller : std::uint8_t { python, swift };

class Runner {
 public:
  Runner(const fs::path& package, Caller caller, bool round_to_f16)
      : caller_(caller), model_(import_coreml(package, {.one_mask_row = caller == Caller::swift})) {
    graph::Interpreter::Options options;
    options.round_to_f16 = round_to_f16;
    interpreter_ = std::make_unique<graph::Interpreter>(model_.graph, model_.weights, options);
  }

  // Logits of ids[begin, end), those before having been run.
  std::vector<float> run(const std::vector<std::int32_t>& ids, std::int64_t begin, std::int64_t end) {
    graph::Tensor tokens{.shape = {1, end - begin}, .data = {}};
    for (std::int64_t i = begin; i < end; ++i)
      tokens.data.push_back(static_cast<float>(ids[static_cast<std::size_t>(i)]));
    auto outputs = interpreter_->run({{"inputIds", tokens}, {"causalMask", mask(begin, end)}}, end - begin);
    return std::move(outputs.at("logits").data);
  }

 private:
  graph::Tensor mask(std::int64_t begin, std::int64_t end) const {
    if (caller_ == Caller::swift) {
      return {.shape = {1, 1, 1, end + 1}, .data = std::vector<float>(static_cast<std::size_t>(end + 1))};
    }
    graph::Tensor mask{.shape = {1, 1, end - begin, end}, .data = {}};
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t j = 0; j < end; ++j) {
        mask.data.push_back(j <= i ? 0.0F : -std::numeric_limits<float>::infinity());
      }
    }
    return mask;
  }

  Caller caller_;
  ImportedModel model_;
  std::unique_ptr<graph::Interpreter> interpreter_;
};

// Prefill and then each further id on the cache, against the reference.
void check(const Golden& golden, const fs::path& package, Caller caller, bool round_to_f16, double tolerance) {
  const auto count = static_cast<std::int64_t>(golden.ids.size());
  Runner whole(package, caller, round_to_f16);
  const std::vector<float> logits = whole.run(golden.ids, 0, count);
  if (golden.from_scratch) {
    const std::span<const float> last(logits.data() + (count - 1) * golden.vocab,
                                      static_cast<std::size_t>(golden.vocab));
    EXPECT_LT(test::relative_difference(last, golden.step(count - golden.prefill - 1)), tolerance);
    return;
  }
  EXPECT_LT(test::relative_difference(logits, golden.logits), tolerance);

  Runner steps(package, caller, round_to_f16);
  steps.run(golden.ids, 0, golden.prefill);
  std::vector<float> got;
  for (std::int64_t end = golden.prefill + 1; end <= count; ++end) {
    const std::vector<float> row = steps.run(golden.ids, end - 1, end);
    got.insert(got.end(), row.begin(), row.end());
  }
  EXPECT_LT(test::relative_difference(got, golden.step_logits), tolerance);
}

class CoremlGolden : public testing::TestWithParam<std::string> {
 protected:
  void check_precision(CoremlPrecision precision, bool round_to_f16, double tolerance) const {
    const Golden golden = test::load_golden(GetParam());
    for (const fs::path& path : golden.models) {
      SCOPED_TRACE(path.filename().string());
      const TestFolder folder;
      const fs::path package = folder.path() / "model.mlpackage";
      write_coreml(models::open_model(path), package, {.precision = precision, .context = kContext}, {});
      for (const Caller caller : {Caller::python, Caller::swift}) {
        SCOPED_TRACE(caller == Caller::python ? "Python's mask" : "Swift's mask");
        check(golden, package, caller, round_to_f16, tolerance);
      }
    }
  }
};

// Random weights make some of the tiny models turn a rounded key or sum into more than the rest do: those whose ropes
// scale queries and keys up, and OpenELM's, whose scores are large.
bool is_touchy(const std::string& name) {
  for (const char* part : {"yarn", "longrope", "openelm", "llama_linear"}) {
    if (name.find(part) != std::string::npos) return true;
  }
  return false;
}

TEST_P(CoremlGolden, Fp32GivesTheReferencesLogits) {  // but for the states, which are fp16
  check_precision(CoremlPrecision::fp32, false, is_touchy(GetParam()) ? 1e-2 : 5e-3);
}

TEST_P(CoremlGolden, Fp16GivesTheReferencesLogits) {
  check_precision(CoremlPrecision::fp16, true, is_touchy(GetParam()) ? 5e-2 : 2e-2);
}

TEST_P(CoremlGolden, MixedGivesTheReferencesLogits) {
  check_precision(CoremlPrecision::mixed, true, is_touchy(GetParam()) ? 5e-2 : 2e-2);
}

INSTANTIATE_TEST_SUITE_P(Models, CoremlGolden, testing::ValuesIn(test::golden_names()),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace pastkv::targets
