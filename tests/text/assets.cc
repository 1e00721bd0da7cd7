#include "assets.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include "base/error.h"

namespace pastkv::text {

std::filesystem::path assets_folder() {
  const char* folder = std::getenv("PASTKV_ASSETS");
  if (folder == nullptr) throw Error({.reason = "PASTKV_ASSETS is not set", .remedy = "run scripts/fetch-assets"});
  return folder;
}

std::string read_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Error({.file = file.string(), .reason = "cannot be read"});
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<Vector> read_vectors(const std::filesystem::path& file) {
  constexpr std::string_view kBetween = "\n__ggml_vocab_test__\n";
  const std::string texts = read_text(file.string() + ".inp");
  std::istringstream lines(read_text(file.string() + ".out"));
  std::vector<Vector> vectors;
  std::string line;
  for (std::size_t at = 0; at <= texts.size() && std::getline(lines, line);) {
    const std::size_t end = texts.find(kBetween, at);
    Vector vector{.text = texts.substr(at, end == std::string::npos ? end : end - at)};
    std::istringstream ids(line);
    for (std::int32_t id = 0; ids >> id;) vector.ids.push_back(id);
    vectors.push_back(std::move(vector));
    if (end == std::string::npos) break;
    at = end + kBetween.size();
  }
  return vectors;
}

std::filesystem::path vocabulary(const std::string& name) {
  return assets_folder() / "llama.cpp" / "models" / ("ggml-vocab-" + name + ".gguf");
}

namespace {

// Texts that meet every part of a pre-tokenizer, and random strings of characters that matter to one.
std::vector<std::string> texts() {
  std::vector<std::string> all;
  for (const Vector& vector : read_vectors(vocabulary("llama-bpe"))) all.push_back(vector.text);
  const std::vector<std::string> pieces = {
      " ",         "  ",  "\n",     "\r\n", "\t", "a", "B",   "the",  " The",
      "'s",        "'LL", "9",      "123",  ".",  ",", "!?",  "_",    "é",
      "e\xCC\x81", "ß",   "你好",   "の",   "한", "ا", "٣",   "😸",   "👨‍👩‍👧",
      "\u00a0",    "▁",   "<",      "|",    ">",  "/", "ing", "tion", "http",
      "ſ",         "İ",   "\u200b", "\x01"};
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (std::size_t n = random() % 24; n > 0; --n) text += pieces[random() % pieces.size()];
    all.push_back(std::move(text));
  }
  return all;
}

}  // namespace

void expect_equal(const Tokenizer& rebuilt, const Tokenizer& reference) {
  int differ = 0;
  for (const std::string& text : texts()) {
    const auto ids = rebuilt.encode(text, false);
    const auto wanted = reference.encode(text, false);
    if (ids != wanted && ++differ <= 5) {
      ADD_FAILURE() << testing::PrintToString(text) << "\n ids    " << testing::PrintToString(ids) << "\n wanted "
                    << testing::PrintToString(wanted);
    }
    EXPECT_EQ(rebuilt.decode(ids, false), reference.decode(wanted, false)) << text;
  }
  EXPECT_EQ(differ, 0);
}

}  // namespace pastkv::text
