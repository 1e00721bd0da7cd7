// The program on published weights, as a person runs it. Needs the models that scripts/fetch-model brings; each test is
// a ctest test of its own, so that what is missing is listed by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace pastkv {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

std::string model(const std::string& file) {
  return environment("PASTKV_MODELS") + "/" + file;
}

const std::string kSmolLm2 = "SmolLM2-135M-Instruct.Q4_1.gguf";
const std::string kGemma3 = "gemma-3-270m-q4_k_m.gguf";

std::string quoted(const std::string& argument) {
  std::string out = "'";
  for (const char c : argument) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// What the program prints to stdout; a failure of the test when it does not end with 0.
std::string pastkv(const std::vector<std::string>& arguments) {
  std::string command = quoted(PASTKV_PROGRAM);
  for (const std::string& argument : arguments) command += " " + quoted(argument);
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) {
    ADD_FAILURE() << "cannot start " << command;
    return {};
  }
  std::string out;
  char buffer[4096];
  for (std::size_t read = 0; (read = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, read);
  const int status = ::pclose(pipe);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << command << "\n" << out;
  return out;
}

double perplexity(const std::string& file) {
  return json::parse(pastkv({"eval", model(file), "--text", environment("PASTKV_TEXT"), "--context", "512", "--chunks",
                             "4", "--json"}))
      .at("perplexity");
}

TEST(SmolLm2, AnswersAQuestionInItsOwnChatForm) {
  const json result =
      json::parse(pastkv({"run", model(kSmolLm2), "--chat", "--system", "You are a helpful assistant.", "-p",
                          "What is the capital of France?", "--temperature", "0", "--max-tokens", "40", "--json"}));
  EXPECT_EQ(result.at("text"), "The capital of France is Paris.");
  EXPECT_EQ(result.at("finish"), "eos");
}

TEST(SmolLm2, IsBenchmarkedAsTwoLabelledVariants) {
  const json report = json::parse(
      pastkv({"bench", model(kSmolLm2), "--prompt-tokens", "16", "--generate-tokens", "4", "--repeat", "2", "--json"}));
  const json& results = report.at("results");
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0].at("label"), "smollm2_135m_instruct_q4_1_prefill");
  EXPECT_EQ(results[0].at("variant").at("query_length"), 16);
  EXPECT_EQ(results[1].at("label"), "smollm2_135m_instruct_q4_1_generation");
  EXPECT_EQ(results[1].at("variant").at("query_length"), 1);
  for (const json& result : results) {
    EXPECT_GT(result.at("metrics").at("tokens_per_second").at("median"), 0.0);
  }
}

// llama-perplexity on the same text, context and chunks gives 18.675.
TEST(SmolLm2, HasThePerplexityOfItsReference) {
  EXPECT_NEAR(perplexity(kSmolLm2), 18.675, 0.1);
}

TEST(Gemma3, ContinuesASentence) {
  const json result = json::parse(
      pastkv({"run", model(kGemma3), "-p", "1, 2, 3, 4,", "--temperature", "0", "--max-tokens", "8", "--json"}));
  EXPECT_THAT(result.at("text").get<std::string>(), HasSubstr("5, 6"));
}

// llama-perplexity gives 12.199.
TEST(Gemma3, HasThePerplexityOfItsReference) {
  EXPECT_NEAR(perplexity(kGemma3), 12.199, 0.12);
}

}  // namespace
}  // namespace pastkv
