// pastkv verify, as a person calls it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "program.h"

namespace pastkv::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;
namespace fs = std::filesystem;

std::string bare() {
  return bare_model().string();
}

// The tiny Llama with one number of one weight changed.
fs::path damaged_model() {
  const fs::path folder = scratch() / "damaged";
  fs::create_directories(folder);
  for (const char* file : {"config.json", "model.safetensors"}) {
    fs::copy_file(bare_model() / file, folder / file, fs::copy_options::overwrite_existing);
  }
  std::fstream weights(folder / "model.safetensors", std::ios::binary | std::ios::in | std::ios::out);
  const float number = 3.5F;
  weights.seekp(-static_cast<std::streamoff>(sizeof(number)), std::ios::end);
  weights.write(reinterpret_cast<const char*>(&number), sizeof(number));
  return folder;
}

TEST(Verify, AModelAgreesWithItselfInTheEngineAndTheInterpreter) {
  const Outcome text = pastkv({"verify", bare(), bare()});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("\nagrees (allowed: largest 0.005"));
  EXPECT_THAT(text.err, HasSubstr("no model has a tokenizer"));
  const Outcome outcome = pastkv({"verify", bare(), bare(), "--interpret", "--json", "-n", "20", "--generate", "5"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json out = json::parse(outcome.out);
  EXPECT_EQ(out["prefill"]["tokens"], 15);
  EXPECT_EQ(out["generation"]["tokens"], 5);
  EXPECT_EQ(out["generation"]["top1_agreement"], 1.0);
  EXPECT_EQ(out["agrees"], true);
}

TEST(Verify, AnotherModelDiffersWithExitOneAndSaysInWhat) {
  const Outcome text = pastkv({"verify", damaged_model().string(), bare(), "--quiet"});
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_THAT(text.out, HasSubstr("prefill: the largest difference is"));
  EXPECT_THAT(text.out, HasSubstr("generation: the largest difference is"));
  EXPECT_THAT(text.out, HasSubstr("\ndiffers ("));
  EXPECT_EQ(text.err, "");
  const Outcome lenient = pastkv({"verify", damaged_model().string(), bare(), "--quiet", "--max-difference", "0",
                                  "--max-kl", "1e9", "--min-agreement", "0"});
  EXPECT_EQ(lenient.exit_code, 0) << lenient.out;
}

TEST(Verify, WithoutAReferenceItNeedsTheNoteOfAConversion) {
  const Outcome outcome = pastkv({"verify", bare()});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("does not say which model it was made of; give it: pastkv verify A B"));
}

TEST(Verify, TheNoteLeadsToTheSource) {
  const fs::path folder = scratch() / "noted";
  fs::remove_all(folder);
  fs::copy(bare_model(), folder);
  std::ofstream(folder / "pastkv.json")
      << json{{"source", bare()}, {"source_hash", "another"}, {"target", "hf"}}.dump();
  const Outcome outcome = pastkv({"verify", folder.string()});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("has changed since"));
  std::ofstream(folder / "pastkv.json") << R"({"source":"gone","source_hash":"","target":"hf"})";
  const Outcome gone = pastkv({"verify", folder.string()});
  EXPECT_EQ(gone.exit_code, 1);
  EXPECT_THAT(gone.err, HasSubstr("noted/gone, which is not there"));
}

TEST(Verify, MistakesInTheCommandLineAreExitTwo) {
  EXPECT_EQ(pastkv({"verify"}).exit_code, 2);
  EXPECT_EQ(pastkv({"verify", bare(), bare(), "--tokens", "1"}).exit_code, 2);
  EXPECT_EQ(pastkv({"verify", bare(), bare(), "--min-agreement", "101"}).exit_code, 2);
  EXPECT_EQ(pastkv({"verify", bare(), bare(), "--max-kl", "-1"}).exit_code, 2);
}

}  // namespace
}  // namespace pastkv::cli
