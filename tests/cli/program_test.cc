// The program as a whole, over tiny models: what it prints, where, and how it ends.
#include "program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

namespace pastkv::cli {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

std::string bare() {
  return bare_model().string();
}
std::string chatty() {
  return chat_model().string();
}

// A failure of the work is exit 1, one line on standard error, and that line says `text`.
void expect_failure(const Outcome& outcome, int code, const std::string& text) {
  EXPECT_EQ(outcome.exit_code, code) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr(text));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

json parsed(const Outcome& outcome) {
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return json::parse(outcome.out, nullptr, false);
}

TEST(Program, TellsItsVersionAndItsCommands) {
  EXPECT_THAT(pastkv({"--version"}).out, StartsWith("pastkv "));
  const Outcome help = pastkv({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* command : {"inspect", "run", "chat", "tokenize", "bench", "eval", "convert", "verify"}) {
    EXPECT_THAT(help.out, HasSubstr(command));
    const Outcome of_command = pastkv({command, "--help"});
    EXPECT_EQ(of_command.exit_code, 0);
    EXPECT_THAT(of_command.out, HasSubstr("Examples:")) << command;
  }
}

TEST(Program, MistakesInTheCommandLineAreExitTwo) {
  expect_failure(pastkv({}), 2, "pastkv --help");
  expect_failure(pastkv({"fly"}), 2, "pastkv --help");
  expect_failure(pastkv({"run"}), 2, "pastkv run --help");
  expect_failure(pastkv({"run", bare()}), 2, "--prompt");
  expect_failure(pastkv({"run", bare(), "--ids", "1", "--wings"}), 2, "--wings");
  expect_failure(pastkv({"run", bare(), "--ids", "1,x"}), 2, "'x' is no token id");
  expect_failure(pastkv({"run", bare(), "--ids", "1", "-p", "a"}), 2, "one of");
  expect_failure(pastkv({"run", bare(), "--ids", "1", "--top-p", "1.5"}), 2, "top-p: is 1.5");
  expect_failure(pastkv({"run", bare(), "--ids", "1", "--temp", "-1"}), 2, "temperature: is -1");
  expect_failure(pastkv({"run", bare(), "--ids", "1", "--top-k=-3"}), 2, "top-k: is -3");
  expect_failure(pastkv({"run", bare(), "--ids", "1", "--repeat-penalty", "0"}), 2, "repetition penalty: is 0");
  expect_failure(pastkv({"run", bare(), "--ids", "1", "--threads", "0"}), 2, "--threads");
  expect_failure(pastkv({"run", bare(), "--ids", "1", "--cache-type", "q9"}), 2, "--cache-type");
  expect_failure(pastkv({"bench", bare(), "--repeat", "0"}), 2, "--repeat");
  expect_failure(pastkv({"run", bare(), "--ids", "1", "--seed", "18446744073709551616"}), 2, "--seed");
  expect_failure(pastkv({"run", bare(), "--ids", "1", "--seed", "-2"}), 2, "--seed");
  expect_failure(pastkv({"run", bare(), "--ids", "1", "-n", "-5"}), 2, "--max-tokens");
  expect_failure(pastkv({"eval", bare(), "--text", "a", "--chunks", "0"}), 2, "--chunks");
  expect_failure(pastkv({"inspct", bare()}), 2, "inspct");
}

TEST(Program, OutputThatCannotBeWrittenIsAFailure) {
  for (const char* more : {"--quiet", "--json"}) {
    expect_failure(pastkv({"run", bare(), "--ids", "1", "-n", "2", more}, {}, "/dev/full"), 1, "");
  }
}

TEST(Program, AModelThatIsNotThereIsNamed) {
  for (const char* command : {"inspect", "chat", "tokenize"}) {
    expect_failure(pastkv({command, "missing.gguf"}), 1, "missing.gguf");
  }
  expect_failure(pastkv({"run", "missing.gguf", "-p", "a"}), 1, "missing.gguf");
  expect_failure(pastkv({"eval", "missing.gguf", "--text", "a"}), 1, "missing.gguf");
  expect_failure(pastkv({"bench", "missing.gguf"}), 1, "missing.gguf");
}

TEST(Inspect, SaysWhatTheModelIsInTextAndJson) {
  const Outcome text = pastkv({"inspect", chatty(), "--context", "32"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  for (const char* part : {"Chat-Model.1", "llama", "f32", "chat_model_1_prefill", "chat_model_1_generation",
                           "[1, 4, 32, 8]", "past_key_values.#.key", "yes, with"}) {
    EXPECT_THAT(text.out, HasSubstr(part));
  }
  const json out = parsed(pastkv({"inspect", chatty(), "--context", "32", "--cache-type", "f32", "--json"}));
  EXPECT_EQ(out["architecture"], "llama");
  EXPECT_EQ(out["context"], 32);
  EXPECT_EQ(out["states"].size(), 4U);
  EXPECT_EQ(out["states"][0]["shape"], json({1, 4, 32, 8}));
  EXPECT_EQ(out["states"][0]["bytes"], 4 * 32 * 8 * 4);
  EXPECT_EQ(out["state_bytes"], 4 * 4 * 32 * 8 * 4);
  EXPECT_EQ(out["variants"][0]["label"], "chat_model_1_prefill");
  EXPECT_EQ(out["variants"][1]["past_length"], 128);
  EXPECT_EQ(out["eos_ids"], json({2}));
  EXPECT_EQ(out["runs"], true);
}

TEST(Inspect, PrintsTheGraphAndTheRotaryFrequencies) {
  EXPECT_THAT(pastkv({"inspect", bare(), "--graph"}).out, HasSubstr("attention"));
  const json rope = parsed(pastkv({"inspect", bare(), "--rope", "--json"}));
  ASSERT_EQ(rope["rope"].size(), 2U);
  EXPECT_EQ(rope["rope"][0]["inverse_frequencies"][0], 1.0);
}

TEST(Inspect, AModelThatCannotRunSaysWhy) {
  const auto folder = scratch() / "strange";
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(bare_model() / "model.safetensors", folder / "model.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  std::ofstream(folder / "config.json") << R"({"model_type":"perceptron"})";
  expect_failure(pastkv({"inspect", folder.string()}), 1, "perceptron");
  const Outcome outcome = pastkv({"inspect", folder.string(), "--json"});
  expect_failure(outcome, 1, "perceptron");
  const json out = json::parse(outcome.out);
  EXPECT_EQ(out["runs"], false);
  EXPECT_THAT(out["reason"].get<std::string>(), HasSubstr("perceptron"));
}

TEST(Run, JsonHasEveryKeyAndTheSettingsThatWereUsed) {
  const json out = parsed(pastkv({"run", bare(), "--ids", "1,5,9", "-n", "4", "--temp", "0.5", "--top-k", "8", "--seed",
                                  "11", "--logprobs", "2", "--ignore-eos", "--json"}));
  EXPECT_EQ(out["prompt_ids"], json({1, 5, 9}));
  EXPECT_EQ(out["ids"].size(), 4U);
  EXPECT_EQ(out["text"], "");
  ASSERT_EQ(out["steps"].size(), 4U);
  EXPECT_EQ(out["steps"][0]["id"], out["ids"][0]);
  EXPECT_LE(out["steps"][0]["logprob"].get<double>(), 0.0);
  ASSERT_EQ(out["steps"][0]["top"].size(), 2U);
  EXPECT_GE(out["steps"][0]["top"][0]["logprob"], out["steps"][0]["top"][1]["logprob"]);
  EXPECT_EQ(out["finish"], "length");
  for (const char* key : {"load_ms", "prefill_ms", "generation_ms", "time_to_first_token_ms"}) {
    EXPECT_TRUE(out["timing"][key].is_number()) << key;
  }
  EXPECT_EQ(out["sampler"]["seed"], 11);
  EXPECT_EQ(out["sampler"]["top_k"], 8);
}

json ids_of(std::vector<std::string> more) {
  std::vector<std::string> arguments = {"run",          bare(), "--ids", "1,5,9,20,33,7,2,60,41,17,30,8,22",
                                        "--ignore-eos", "-n",   "12",    "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return parsed(pastkv(arguments))["ids"];
}

TEST(Run, TheAnswerDependsOnNeitherChunkNorThreadsNorContext) {
  const json expected = ids_of({});
  EXPECT_EQ(expected.size(), 12U);
  EXPECT_EQ(ids_of({"--prefill-chunk", "1"}), expected);
  EXPECT_EQ(ids_of({"--prefill-chunk", "7"}), expected);
  EXPECT_EQ(ids_of({"--threads", "1"}), expected);
  EXPECT_EQ(ids_of({"--context", "64"}), expected);
}

TEST(Run, AGgufWithoutAVocabularyRunsOnIds) {
  const std::filesystem::path model = bare_model().parent_path() / "gemma3.gguf";
  const Outcome outcome = pastkv({"run", model.string(), "--ids", "1,2", "-n", "2", "--ignore-eos"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, testing::MatchesRegex("[0-9]+ [0-9]+\n"));
}

TEST(Run, TheSeedDecides) {
  const json first = ids_of({"--temp", "2", "--seed", "1"});
  EXPECT_EQ(ids_of({"--temp", "2", "--seed", "1", "--threads", "1"}), first);
  EXPECT_NE(ids_of({"--temp", "2", "--seed", "2"}), first);
  EXPECT_EQ(ids_of({"--seed", "1"}), ids_of({"--seed", "2"}));  // greedy
}

TEST(Run, PromptsThatCannotBeRunAreRefused) {
  std::string long_prompt = "1";
  for (int i = 1; i < 65; ++i) long_prompt += ",1";
  expect_failure(pastkv({"run", bare(), "--ids", long_prompt}), 1, "65 tokens, and the context holds 64");
  expect_failure(pastkv({"run", bare(), "--ids", "1,1,1,1,1", "--context", "4"}), 1,
                 "5 tokens, and the context holds 4");
  expect_failure(pastkv({"run", bare(), "--ids", ""}), 1, "prompt: is empty");
  expect_failure(pastkv({"run", bare(), "--ids", "64"}), 1, "id 64 is outside the model's vocabulary of 64");
  expect_failure(pastkv({"run", bare(), "-p", "abc"}), 1, "tokenizer");
  expect_failure(pastkv({"run", chatty(), "-p", ""}), 1, "prompt: is empty");
  expect_failure(pastkv({"run", chatty(), "--prompt-file", "missing.txt"}), 1, "missing.txt");
}

TEST(Run, TextComesFromTheOptionAFileOrStandardInput) {
  const auto file = scratch() / "prompt.txt";
  std::ofstream(file) << "abc";
  const std::vector<std::string> common = {"run", chatty(), "-n", "3", "--json"};
  const auto with = [&](std::vector<std::string> more, const std::string& input = {}) {
    more.insert(more.begin(), common.begin(), common.end());
    return parsed(pastkv(more, input));
  };
  const json expected = with({"-p", "abc"});
  EXPECT_EQ(expected["prompt_ids"], json({1, 4, 5, 6}));
  EXPECT_EQ(with({"--prompt-file", file.string()})["ids"], expected["ids"]);
  EXPECT_EQ(with({"-p", "-"}, "abc")["ids"], expected["ids"]);
  EXPECT_EQ(with({"-f", "-"}, "abc")["ids"], expected["ids"]);
}

TEST(Run, StreamsTheTextToStandardOutputAndTheStatisticsElsewhere) {
  const json out = parsed(pastkv({"run", chatty(), "-p", "abc", "-n", "5", "--json"}));
  const Outcome plain = pastkv({"run", chatty(), "-p", "abc", "-n", "5", "--stats"});
  EXPECT_EQ(plain.exit_code, 0);
  EXPECT_EQ(plain.out, out["text"].get<std::string>() + "\n");
  EXPECT_THAT(plain.err, AllOf(HasSubstr("prefill 4 tokens"), HasSubstr("first token after")));
}

TEST(Run, ChatAppliesTheTemplateWithExactlyOneBos) {
  const json out = parsed(pastkv({"run", chatty(), "--chat", "--system", "x", "-p", "hi", "-n", "1", "--json"}));
  // "<s>s x u hi a "
  EXPECT_EQ(out["prompt_ids"], json({1, 22, 3, 27, 3, 24, 3, 11, 12, 3, 4, 3}));
}

TEST(Run, ATemplateThatRefusesIsHeardInItsOwnWords) {
  expect_failure(pastkv({"run", chatty(), "--chat", "--system", "forbidden", "-p", "hi"}), 1,
                 "this system message is refused");
}

TEST(Run, BrokenUtf8IsRefusedWithAndWithoutATemplate) {
  expect_failure(pastkv({"run", chatty(), "-p", "a\xf0\x9f", "-n", "1"}), 1, "not UTF-8");
  expect_failure(pastkv({"run", chatty(), "--chat", "-p", "a\xf0\x9f", "-n", "1"}), 1, "not UTF-8");
}

TEST(Run, ChatWithoutATemplateIsRefused) {
  const auto folder = scratch() / "plain";
  std::filesystem::create_directories(folder);
  for (const char* file : {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}) {
    std::filesystem::copy_file(chat_model() / file, folder / file, std::filesystem::copy_options::overwrite_existing);
  }
  expect_failure(pastkv({"run", folder.string(), "--chat", "-p", "hi"}), 1, "chat template");
  expect_failure(pastkv({"chat", folder.string()}), 1, "chat template");
}

TEST(Run, MoreThreadsThanAllowedAreAcceptedWithAWarning) {
  const Outcome outcome = pastkv({"run", bare(), "--ids", "1", "-n", "1", "--threads", "300"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("warning: 300 threads"));
  EXPECT_THAT(pastkv({"run", bare(), "--ids", "1", "-n", "1", "--threads", "300", "--quiet"}).err, IsEmpty());
}

TEST(Chat, AnswersEachLineOfAPipe) {
  const Outcome outcome = pastkv({"chat", chatty(), "--temp", "0", "-n", "2", "--stats"}, "hi\n\nyou\n/exit\nno\n");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 2);
  EXPECT_THAT(outcome.err, HasSubstr("more from the cache"));
}

TEST(Chat, AConversationThatOutgrowsTheContextSaysSo) {
  const Outcome outcome =
      pastkv({"chat", chatty(), "--temp", "0", "-n", "2", "--context", "12"}, "hi\nthis is far too long\n");
  expect_failure(outcome, 1, "and the context holds 12");
}

TEST(Tokenize, IdsThatStandForNothingAreSaid) {
  const Outcome outcome = pastkv({"tokenize", chatty(), "--decode", "4,9999"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "a\n");
  EXPECT_THAT(outcome.err, HasSubstr("no id 9999"));
}

TEST(Tokenize, TurnsTextIntoIdsAndBack) {
  EXPECT_EQ(pastkv({"tokenize", chatty(), "abc"}).out, "1 4 5 6\n");
  EXPECT_EQ(pastkv({"tokenize", chatty(), "--no-special", "abc"}).out, "4 5 6\n");
  EXPECT_EQ(pastkv({"tokenize", chatty()}, "abc").out, "1 4 5 6\n");
  EXPECT_EQ(pastkv({"tokenize", chatty(), "--decode", "4,5,6"}).out, "abc\n");
  EXPECT_EQ(pastkv({"tokenize", (chat_model() / "tokenizer.json").string(), "--no-special", "abc"}).out, "4 5 6\n");
  EXPECT_THAT(pastkv({"tokenize", chatty(), "--show-tokens", "ab"}).out, HasSubstr("\"b\""));
  const json out = parsed(pastkv({"tokenize", chatty(), "--json", "ab"}));
  EXPECT_EQ(out["ids"], json({1, 4, 5}));
  EXPECT_EQ(out["tokens"], json({"<s>", "a", "b"}));
  expect_failure(pastkv({"tokenize", chatty(), "--decode", "x"}), 2, "no token id");
}

TEST(Eval, MeasuresThePerplexityOfAText) {
  const auto file = scratch() / "text.txt";
  std::ofstream text(file);
  for (int i = 0; i < 40; ++i) text << "the quick brown fox jumps over the lazy dog ";
  text.close();
  const json out =
      parsed(pastkv({"eval", chatty(), "--text", file.string(), "--context", "32", "--chunks", "3", "--json"}));
  EXPECT_EQ(out["tokens"], 3 * 15);
  EXPECT_GT(out["perplexity"].get<double>(), 1.0);
  EXPECT_GT(out["error"].get<double>(), 0.0);
  const json one_by_one = parsed(pastkv({"eval", chatty(), "--text", file.string(), "--context", "32", "--chunks", "3",
                                         "--prefill-chunk", "1", "--cache-type", "f32", "--json"}));
  EXPECT_NEAR(one_by_one["perplexity"].get<double>(), out["perplexity"].get<double>(), 0.05);
  expect_failure(pastkv({"eval", chatty(), "--text", file.string(), "--context", "100000", "--quiet"}), 1,
                 "one chunk takes 100000");
}

TEST(Bench, WritesTheSchemaWithBothVariantsOfEachModel) {
  const json out = parsed(pastkv({"bench", bare(), chatty(), "--prompt-tokens", "16", "--generate-tokens", "4",
                                  "--repeat", "3", "--threads", "1", "--json"}));
  EXPECT_EQ(out["schema"], "pastkv.bench/1");
  for (const char* key : {"processor", "cores", "allowed", "kernels", "memory_bytes", "os", "compiler"}) {
    EXPECT_TRUE(out["host"].contains(key)) << key;
  }
  ASSERT_EQ(out["results"].size(), 4U);
  EXPECT_EQ(out["results"][0]["label"], "llama_prefill");
  EXPECT_EQ(out["results"][1]["label"], "llama_generation");
  EXPECT_EQ(out["results"][2]["label"], "chat_model_1_prefill");
  const json& generation = out["results"][3];
  EXPECT_EQ(generation["label"], "chat_model_1_generation");
  EXPECT_EQ(generation["variant"]["past_length"], 16);
  EXPECT_EQ(generation["variant"]["query_length"], 1);
  EXPECT_EQ(generation["metrics"]["latency_ms"]["samples_ns"].size(), 3U * 4);
  EXPECT_EQ(out["results"][2]["metrics"]["latency_ms"]["samples_ns"].size(), 3U);
  EXPECT_EQ(generation["threads"], 1);
  EXPECT_GT(generation["peak_rss_bytes"].get<double>(), 0);
  EXPECT_GT(generation["state_bytes"].get<double>(), 0);
  EXPECT_GT(generation["roofline"]["fraction"].get<double>(), 0);
  EXPECT_EQ(out["results"][0]["model"]["hash"], out["results"][2]["model"]["hash"]);  // the same weights
}

TEST(Bench, PrintsATableThatFitsATerminal) {
  const Outcome outcome =
      pastkv({"bench", bare(), "--prompt-tokens", "16", "--generate-tokens", "2", "--repeat", "1", "--threads", "1"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("llama_prefill"), HasSubstr("llama_generation"), HasSubstr("tok/s"),
                                 HasSubstr("[1, 16] past 0"), HasSubstr("[1, 1] past 16")));
}

TEST(Bench, OneModelThatFailsDoesNotStopTheOthers) {
  const Outcome outcome = pastkv({"bench", "--quiet", "missing.gguf", bare(), "--prompt-tokens", "8",
                                  "--generate-tokens", "0", "--repeat", "1", "--threads", "1"});
  expect_failure(outcome, 1, "missing.gguf");
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("llama_prefill"), Not(HasSubstr("llama_generation"))));
}

}  // namespace
}  // namespace pastkv::cli
