#include "program.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

namespace pastkv::cli {
namespace {

std::string quoted(const std::string& argument) {
  std::string out = "'";
  for (const char c : argument) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string contents(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

nlohmann::json letters_tokenizer() {
  nlohmann::json vocab = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}, {" ", 3}};
  for (int i = 0; i < 26; ++i) vocab[std::string(1, static_cast<char>('a' + i))] = 4 + i;
  nlohmann::json added = nlohmann::json::array();
  for (const auto& [id, content] : std::vector<std::pair<int, std::string>>{{0, "<unk>"}, {1, "<s>"}, {2, "</s>"}}) {
    added.push_back({{"id", id},
                     {"content", content},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const nlohmann::json bos = {{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}};
  const nlohmann::json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", nullptr},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", {bos, text}},
            {"pair", {bos, text, text}},
            {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {1}}, {"tokens", {"<s>"}}}}}}}},
          {"decoder", {{"type", "Fuse"}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", "<unk>"},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", vocab},
            {"merges", nlohmann::json::array()}}}};
}

constexpr const char* kTemplate =
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' and m.content == 'forbidden' %}"
    "{{ raise_exception('this system message is refused') }}{% endif %}{{ m.role[0] }} {{ m.content }} {% endfor %}"
    "{% if add_generation_prompt %}a {% endif %}";

}  // namespace

Outcome pastkv(const std::vector<std::string>& arguments, const std::string& input,
               const std::filesystem::path& output) {
  const std::filesystem::path in = scratch() / "stdin";
  const std::filesystem::path out = output.empty() ? scratch() / "stdout" : output;
  const std::filesystem::path err = scratch() / "stderr";
  write(in, input);
  std::string command = quoted(PASTKV_PROGRAM);
  for (const std::string& argument : arguments) command += " " + quoted(argument);
  command += " <" + quoted(in.string()) + " >" + quoted(out.string()) + " 2>" + quoted(err.string());
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          output.empty() ? contents(out) : std::string(), contents(err)};
}

std::filesystem::path scratch() {
  static const std::filesystem::path folder = [] {
    auto path = std::filesystem::temp_directory_path() / ("pastkv_cli_test_" + std::to_string(getpid()));
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
    return path;
  }();
  return folder;
}

std::filesystem::path bare_model() {
  return std::filesystem::path(PASTKV_TEST_DATA) / "models" / "llama";
}

std::filesystem::path chat_model() {
  static const std::filesystem::path folder = [] {
    auto path = scratch() / "Chat-Model.1";
    std::filesystem::create_directories(path);
    for (const char* file : {"config.json", "model.safetensors"}) {
      std::filesystem::copy_file(bare_model() / file, path / file);
    }
    write(path / "tokenizer.json", letters_tokenizer().dump());
    write(path / "tokenizer_config.json", R"({"bos_token":"<s>","eos_token":"</s>","tokenizer_class":"Tokenizer"})");
    write(path / "chat_template.jinja", kTemplate);
    return path;
  }();
  return folder;
}

}  // namespace pastkv::cli
