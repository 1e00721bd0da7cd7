// pastkv convert, as a person calls it: every target, what is kept, what is refused, what is left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "program.h"

namespace pastkv::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;
namespace fs = std::filesystem;

std::string golden(const std::string& name) {
  return (fs::path(PASTKV_TEST_DATA) / "models" / name).string();
}

fs::path fresh(const std::string& name) {
  const fs::path place = scratch() / "converted" / name;
  fs::remove_all(place);
  fs::remove_all(place.string() + ".pastkv.json");
  fs::create_directories(place.parent_path());
  return place;
}

std::string contents(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Every file below a place by its path there, with its bytes.
std::map<std::string, std::string> all_files(const fs::path& place) {
  if (fs::is_regular_file(place)) return {{"", contents(place)}};
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(place)) {
    if (entry.is_regular_file()) out[entry.path().lexically_relative(place).string()] = contents(entry.path());
  }
  return out;
}

struct Case {
  std::string model;
  std::string target;
  std::vector<std::string> options;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.model << " to " << c.target;
}

class ConvertTo : public testing::TestWithParam<Case> {
 protected:
  std::vector<std::string> command(const fs::path& out) const {
    std::vector<std::string> all = {"convert", golden(GetParam().model), "--to", GetParam().target, "-o", out.string()};
    all.insert(all.end(), GetParam().options.begin(), GetParam().options.end());
    return all;
  }
  std::string out_name() const { return GetParam().target == "gguf" ? "made.gguf" : "made"; }
};

TEST_P(ConvertTo, IsProvedAndFoundAgainByVerify) {
  const fs::path out = fresh(out_name());
  std::vector<std::string> with_json = command(out);
  with_json.emplace_back("--json");
  const Outcome made = pastkv(with_json);
  ASSERT_EQ(made.exit_code, 0) << made.out << made.err;
  const json told = json::parse(made.out);
  EXPECT_EQ(told["target"], GetParam().target);
  EXPECT_GT(told["bytes"].get<double>(), 0);
  EXPECT_FALSE(told["files"].empty());
  EXPECT_EQ(told["verify"]["agrees"], true) << made.out;
  const Outcome verified = pastkv({"verify", out.string(), "--quiet"});
  EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("agrees"));
}

TEST_P(ConvertTo, GivesTheSameBytesEachTime) {
  const fs::path out = fresh(out_name());
  std::vector<std::string> without_check = command(out);
  without_check.emplace_back("--no-verify");
  ASSERT_EQ(pastkv(without_check).exit_code, 0);
  const auto before = all_files(out);
  without_check.emplace_back("--force");
  ASSERT_EQ(pastkv(without_check).exit_code, 0);
  EXPECT_TRUE(before == all_files(out));
}

INSTANTIATE_TEST_SUITE_P(Targets, ConvertTo,
                         testing::Values(Case{"llama", "gguf", {}}, Case{"gemma3", "gguf", {"--dtype", "f16"}},
                                         Case{"llama", "hf", {}}, Case{"qwen2.gguf", "hf", {"--dtype", "f16"}},
                                         Case{"llama", "onnx", {}},
                                         Case{"gemma3", "onnx", {"--ops", "contrib", "--precision", "fp16"}},
                                         Case{"qwen3.gguf", "onnx", {}}, Case{"llama", "coreml", {}},
                                         Case{"gemma3", "coreml", {"--precision", "fp32"}}));

TEST(Convert, WhatIsThereIsKeptUnlessForced) {
  const fs::path out = fresh("kept.gguf");
  std::ofstream(out) << "mine";
  const Outcome refused = pastkv({"convert", golden("llama"), "--to", "gguf", "-o", out.string()});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("kept.gguf"));
  EXPECT_EQ(contents(out), "mine");
  EXPECT_EQ(pastkv({"convert", golden("llama"), "--to", "gguf", "-o", out.string(), "--force", "--quiet"}).exit_code,
            0);
  EXPECT_EQ(contents(out).substr(0, 4), "GGUF");
}

// A limit on the size of files, inherited by the program: the writing fails in the middle, as on a full disk.
TEST(Convert, AFailureInTheMiddleLeavesNothingAndKeepsWhatWasThere) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  for (const char* target : {"gguf", "hf", "onnx"}) {
    const fs::path folder = fresh("limited");
    fs::create_directories(folder);
    const fs::path out = folder / "out.gguf";
    const rlimit small{30'000, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    const Outcome failed = pastkv({"convert", golden("llama"), "--to", target, "-o", out.string(), "--quiet"});
    setrlimit(RLIMIT_FSIZE, &before);
    EXPECT_EQ(failed.exit_code, 1) << target << failed.err;
    EXPECT_THAT(failed.err, HasSubstr("out.gguf")) << target;
    EXPECT_TRUE(fs::is_empty(folder)) << target;
  }
  std::signal(SIGXFSZ, handler);
}

TEST(Convert, AFolderThatMayNotBeWrittenToIsNamed) {
  if (geteuid() == 0) {  // for whom no folder is closed
    const Outcome outcome = pastkv({"convert", golden("llama"), "--to", "hf", "-o", "/proc/pastkv_out", "--quiet"});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.err, HasSubstr("/proc/pastkv_out"));
    return;
  }
  const fs::path folder = fresh("closed");
  fs::create_directories(folder);
  fs::permissions(folder, fs::perms::owner_read | fs::perms::owner_exec);
  const Outcome outcome = pastkv({"convert", golden("llama"), "--to", "hf", "-o", (folder / "out").string()});
  fs::permissions(folder, fs::perms::owner_all);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("closed/out"));
}

TEST(Convert, TheSourceIsNeverWrittenOverOrInto) {
  const fs::path source = fresh("source");
  fs::copy(golden("llama"), source);
  fs::copy(golden("llama_tied.gguf"), fresh("source.gguf"));
  const auto before = all_files(source);
  const auto refused = [&](const std::string& from, const char* target, const std::string& to) {
    const Outcome outcome = pastkv({"convert", from, "--to", target, "-o", to, "--force", "--no-verify"});
    EXPECT_EQ(outcome.exit_code, 1) << to;
    return outcome.err;
  };
  EXPECT_THAT(refused(source, "hf", source), HasSubstr("is the model that is to be converted"));
  EXPECT_THAT(refused(source, "onnx", source / "onnx"), HasSubstr("lies in the folder of the model"));
  EXPECT_THAT(refused(source, "hf", source.parent_path()), HasSubstr("holds the model"));
  EXPECT_THAT(refused(source.string() + ".gguf", "gguf", source.string() + ".gguf"), HasSubstr("is the model"));
  EXPECT_TRUE(before == all_files(source));
}

TEST(Convert, MistakesInTheCommandLineAreExitTwo) {
  const auto refused = [](const std::vector<std::string>& options) {
    std::vector<std::string> all = {"convert", golden("llama"), "-o", fresh("never").string()};
    all.insert(all.end(), options.begin(), options.end());
    const Outcome outcome = pastkv(all);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_FALSE(fs::exists(scratch() / "converted" / "never"));
    return outcome.err;
  };
  EXPECT_THAT(refused({}), HasSubstr("--to"));
  EXPECT_THAT(refused({"--to", "tflite"}), HasSubstr("known are coreml, onnx, gguf, hf"));
  EXPECT_THAT(refused({"--to", "onnx", "--split-size", "1GB"}),
              HasSubstr("--split-size belongs to --to gguf, not to --to onnx"));
  EXPECT_THAT(refused({"--to", "hf", "--precision", "fp16"}), HasSubstr("belongs to --to coreml and onnx"));
  EXPECT_THAT(refused({"--to", "hf", "--dtype", "q4_0"}), HasSubstr("it takes f32, f16, bf16"));
  EXPECT_THAT(refused({"--to", "coreml", "--precision", "int4"}), HasSubstr("fp16, fp32, mixed"));
  EXPECT_THAT(refused({"--to", "gguf", "--dtype", "q3"}), HasSubstr("q4_k_m"));
}

TEST(Imported, RunInspectAndEvalTakeWhatWasConverted) {
  const fs::path out = fresh("chat_onnx");
  ASSERT_EQ(pastkv({"convert", chat_model().string(), "--to", "onnx", "-o", out.string(), "--no-verify"}).exit_code, 0);
  const auto answer = [](const std::string& model) {
    return pastkv({"run", model, "-p", "hello", "-n", "6", "--ignore-eos"}).out;
  };
  EXPECT_EQ(answer(out.string()), answer(chat_model().string()));
  EXPECT_EQ(answer((out / "onnx/model.onnx").string()), answer(chat_model().string()));
  EXPECT_EQ(pastkv({"tokenize", (out / "onnx/model.onnx").string(), "abc"}).out, "1 4 5 6\n");
  const json inspected = json::parse(pastkv({"inspect", out.string(), "--json"}).out);
  EXPECT_EQ(inspected["format"], "onnx");
  EXPECT_EQ(inspected["states"].size(), 4U);
  EXPECT_EQ(inspected["vocab"], 64);
  EXPECT_EQ(inspected["facts"]["opset"], "18");
  EXPECT_EQ(inspected["runs"], true);
  const Outcome again = pastkv({"convert", out.string(), "--to", "gguf", "-o", fresh("twice.gguf").string()});
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_THAT(again.err, HasSubstr("is a model of onnx already"));
}

}  // namespace
}  // namespace pastkv::cli
