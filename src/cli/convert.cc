// pastkv convert: a model in another form, proved by the logits of what was written.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "bench/model_hash.h"
#include "bench/opened_model.h"
#include "bench/prompt.h"
#include "bench/source_note.h"
#include "cli/command.h"
#include "cli/convert_options.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/verification.h"

namespace pastkv::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct ConvertFlags {
  fs::path model;
  std::string to;
  fs::path out;
  TargetOptions options;
  bool force = false;
  bool no_verify = false;
  int threads = 0;
  bool json = false;
  bool quiet = false;
};

struct Outcome {
  targets::Written written;
  double seconds = 0;
  std::optional<Verification> verification;
};

Target target_of(const std::string& to) {
  for (const Target target : {Target::coreml, Target::onnx, Target::gguf, Target::hf}) {
    if (to == name(target)) return target;
  }
  throw UsageError(fmt::format("there is no target {}; known are coreml, onnx, gguf, hf", to));
}

fs::path resolved(const fs::path& path) {
  const fs::path whole = fs::weakly_canonical(fs::absolute(path));
  return whole.has_filename() ? whole : whole.parent_path();
}

bool is_inside(const fs::path& inner, const fs::path& outer) {
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

// Neither the source nor what it lies in may be replaced, and nothing is put among its files.
void refuse_source(const models::Model& model, const fs::path& given, const fs::path& out) {
  const fs::path source = resolved(given);
  const fs::path target = resolved(out);
  const auto refuse = [&](const std::string& reason) {
    throw Error({.file = out.string(), .place = {}, .reason = reason, .remedy = "write to another place"});
  };
  if (source == target) refuse("is the model that is to be converted");
  if (is_inside(target, source)) refuse("lies in the folder of the model that is to be converted");
  if (is_inside(source, target)) refuse("holds the model that is to be converted");
  // Parts of a split file have names of their own, which the parts of the output would take.
  const bool gguf = std::holds_alternative<formats::GgufFile>(model.source);
  if (gguf && source.parent_path() == target.parent_path() && target.stem() == model.name) {
    refuse("has the name of the model that is to be converted");
  }
}

// What opens the result: the file or folder, and of a split file its first part.
fs::path artifact_of(const ConvertFlags& flags, const targets::Written& written) {
  if (target_of(flags.to) != Target::gguf || written.files.empty()) return flags.out;
  return flags.out.parent_path() / written.files.front();
}

// Few enough tokens that it takes seconds: an interpreter does about half a giga multiplications in one.
VerifyOptions short_verification(const bench::OpenedModel& made, const bench::OpenedModel& source) {
  constexpr double kMultiplications = 2e9;
  VerifyOptions options{.text = std::string(bench::default_prompt()), .tolerance = tolerance_for(made, source)};
  if (made.imported() != nullptr) {
    const auto parameters = static_cast<double>(std::max<std::uint64_t>(source.model()->parameters, 1));
    options.tokens = static_cast<std::int64_t>(std::clamp(kMultiplications / parameters, 4.0, 64.0));
  }
  options.generate = options.tokens / 4;
  return options;
}

Verification prove(const ConvertFlags& flags, const fs::path& artifact) {
  const bench::OpenOptions options{.threads = flags.threads, .hold_weights = false};
  const bench::OpenedModel made(artifact, options);
  const bench::OpenedModel source(flags.model, options);
  StatusLine progress(!flags.quiet);
  progress.show("verifying");
  return verify(made, source, short_verification(made, source), [&](std::int64_t done, std::int64_t of) {
    check_interrupt();
    progress.show(fmt::format("verifying: {} of {} tokens", done, of));
  });
}

Outcome do_convert(const ConvertFlags& flags, Target target) {
  if (is_imported(bench::form_of(flags.model))) {
    throw Error({.file = flags.model.string(),
                 .place = {},
                 .reason = fmt::format("is a model of {} already, which is read but not converted",
                                       bench::name(bench::form_of(flags.model))),
                 .remedy = "convert the Hugging Face folder or the .gguf file that it was made of"});
  }
  const models::Model model = models::open_model(flags.model);
  for (const std::string& warning : model.warnings) warn(warning, flags.quiet);
  refuse_source(model, flags.model, flags.out);
  catch_interrupts();
  Outcome outcome;
  const auto begin = std::chrono::steady_clock::now();
  {
    Progress progress("writing", !flags.quiet);
    outcome.written =
        flags.options.write(target, model, flags.out, {.replace = flags.force, .progress = progress.sink()});
  }
  bench::write_source_note(flags.out,
                           {.source = flags.model, .hash = bench::model_hash(model), .target = name(target)});
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!flags.no_verify) outcome.verification = prove(flags, artifact_of(flags, outcome.written));
  return outcome;
}

void print(const ConvertFlags& flags, const Outcome& outcome) {
  const targets::Written& written = outcome.written;
  if (!flags.json) {
    fmt::print("{}: {} in {} file{}, written in {}\n", flags.out.string(),
               bytes_text(static_cast<double>(written.bytes)), written.files.size(),
               written.files.size() == 1 ? "" : "s", milliseconds_text(outcome.seconds * 1e3));
    if (outcome.verification) fmt::print("{}", to_text(*outcome.verification));
    return;
  }
  Json out;
  out["target"] = flags.to;
  out["output"] = flags.out.string();
  out["files"] = written.files;
  out["bytes"] = written.bytes;
  out["seconds"] = outcome.seconds;
  out["notes"] = written.notes;
  out["verify"] = outcome.verification ? to_json(*outcome.verification) : Json(nullptr);
  fmt::print("{}\n", out.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void convert(const ConvertFlags& flags) {
  const Target target = target_of(flags.to);
  flags.options.check(target);
  warn_about_threads(flags.threads, flags.quiet);
  const Outcome outcome = do_convert(flags, target);
  if (!flags.quiet) {
    for (const std::string& note : outcome.written.notes) fmt::print(stderr, "note: {}\n", note);
  }
  print(flags, outcome);
  if (outcome.verification && !outcome.verification->faults.empty()) throw AlreadyReported();
}

}  // namespace

void add_convert(CLI::App& program) {
  auto flags = std::make_shared<ConvertFlags>();
  CLI::App& command =
      *program.add_subcommand("convert", "write a model as Core ML, ONNX, GGUF or a Hugging Face folder");
  command.add_option("-m,--model,MODEL", flags->model, "a Hugging Face folder or a .gguf file")->required();
  command.add_option("--to", flags->to, "coreml, onnx, gguf or hf")->required();
  command.add_option("-o,--output", flags->out, "the folder or file to be made")->required();
  command.add_flag("--force", flags->force, "replace what is there");
  command.add_flag("--no-verify", flags->no_verify, "do not compare the result with the source at the end");
  flags->options.add_to(command);
  add_threads(command, flags->threads);
  add_json(command, flags->json);
  add_quiet(command, flags->quiet);
  set_examples(command,
               "  pastkv convert folder --to coreml -o Model\n"
               "  pastkv convert folder --to coreml --context 1024 -o Model.mlpackage\n"
               "  pastkv convert model.gguf --to onnx --ops contrib --precision int4 -o onnx_folder\n"
               "  pastkv convert folder --to gguf --dtype q4_k_m -o model.gguf\n"
               "  pastkv convert model.gguf --to hf --dtype f16 -o folder --force");
  command.callback([flags] { convert(*flags); });
}

}  // namespace pastkv::cli
