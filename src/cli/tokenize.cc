// pastkv tokenize: text to ids and back.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "bench/opened_model.h"
#include "cli/command.h"
#include "cli/options.h"
#include "formats/gguf.h"
#include "formats/hf_folder.h"

namespace pastkv::cli {
namespace {

struct TokenizeFlags {
  std::filesystem::path model;
  std::optional<std::string> text;
  std::optional<std::filesystem::path> file;
  bool decode = false;
  bool no_special = false;
  bool special_as_text = false;
  bool show_tokens = false;
  bool json = false;
  bool quiet = false;
};

// The tokenizer alone: weights are not looked at, and may be missing. Beside an ONNX file, as beside a package, it lies
// in the folder that the two came in.
text::Tokenizer open_tokenizer(const std::filesystem::path& path) {
  const bool imported = is_imported(bench::form_of(path));
  if (!imported && !std::filesystem::is_directory(path)) {
    return path.extension() == ".json" ? text::Tokenizer::from_file(path)
                                       : text::Tokenizer::from_gguf(formats::read_gguf(path));
  }
  std::filesystem::path folder = std::filesystem::absolute(path / "").parent_path();
  for (int up = 0; up < (imported ? 3 : 1); ++up, folder = folder.parent_path()) {
    const formats::HfFolder texts = formats::read_hf_texts(folder);
    if (texts.tokenizer) return text::Tokenizer::from_hf(texts);
  }
  throw Error({.file = path.string(),
               .place = "tokenizer.json",
               .reason = "is missing",
               .remedy = "download the whole folder of the model"});
}

nlohmann::ordered_json tokens_json(const text::Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const std::int32_t id : ids) {
    const auto token = tokenizer.token_of(id);
    out.push_back(token ? nlohmann::ordered_json(*token) : nlohmann::ordered_json(nullptr));
  }
  return out;
}

void print_tokens(const text::Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
  for (const std::int32_t id : ids) {
    // As JSON strings: a token may be a newline, or half a character.
    const nlohmann::json token = tokenizer.token_of(id).value_or("");
    fmt::print("{:>7}  {}{}\n", id, token.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
               tokenizer.is_special(id) ? "  special" : "");
  }
}

void tokenize(const TokenizeFlags& flags) {
  if (flags.text && flags.file) throw UsageError("give TEXT or --file, not both");
  const text::Tokenizer tokenizer = open_tokenizer(flags.model);
  const std::string input =
      flags.text && *flags.text != "-" ? *flags.text : read_text(flags.file.value_or(std::filesystem::path("-")));
  const std::vector<std::int32_t> ids =
      flags.decode ? parse_ids(input)
                   : tokenizer.encode(input, !flags.no_special,
                                      flags.special_as_text ? text::SpecialText::as_text : text::SpecialText::parse);
  for (const std::int32_t id : ids) {
    if (!tokenizer.token_of(id))
      warn(fmt::format("the vocabulary has no id {}: it stands for no text", id), flags.quiet);
  }
  const std::string text = flags.decode ? tokenizer.decode(ids, flags.no_special) : input;
  if (flags.json) {
    const nlohmann::ordered_json out = {{"ids", ids},
                                        {"tokens", tokens_json(tokenizer, ids)},
                                        {"text", text},
                                        {"bos_decided_by", tokenizer.bos_source()}};
    fmt::print("{}\n", out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else if (flags.show_tokens) {
    print_tokens(tokenizer, ids);
  } else if (flags.decode) {
    fmt::print("{}\n", text);
  } else {
    fmt::print("{}\n", fmt::join(ids, " "));
  }
}

}  // namespace

void add_tokenize(CLI::App& program) {
  auto flags = std::make_shared<TokenizeFlags>();
  CLI::App& command = *program.add_subcommand("tokenize", "turn text into token ids, or ids into text");
  command
      .add_option("-m,--model,MODEL", flags->model,
                  "a Hugging Face folder, a .gguf file, an ONNX model, an .mlpackage or a tokenizer.json")
      ->required();
  command.add_option("-p,--prompt,TEXT", flags->text,
                     "the text, or the ids with --decode ('-' or none: standard input)");
  command.add_option("-f,--file", flags->file, "read the text from a file");
  command.add_flag("-d,--decode", flags->decode, "ids to text");
  command.add_flag("--no-special", flags->no_special, "add no BOS or EOS; with --decode, leave special tokens out");
  command.add_flag("--special-as-text", flags->special_as_text,
                   "the spelling of a special token in the text stays ordinary text");
  command.add_flag("--show-tokens", flags->show_tokens, "one line for each token: id, spelling in the vocabulary");
  add_json(command, flags->json);
  add_quiet(command, flags->quiet);
  set_examples(command,
               "  pastkv tokenize model.gguf 'Hello world'\n"
               "  pastkv tokenize model.gguf --show-tokens 'Hello world'\n"
               "  pastkv tokenize model.gguf --decode 19556,905\n"
               "  pastkv tokenize folder/tokenizer.json --json < text.txt");
  command.callback([flags] { tokenize(*flags); });
}

}  // namespace pastkv::cli
