// The program: reads the command line, runs one command, and turns every failure into one line and an exit code:
// 0 done, 1 the work failed, 2 the command line was wrong, 130 interrupted.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/version.h"
#include "cli/command.h"
#include "cli/terminal.h"

namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kInterrupted = 130;

int fail(const char* reason) {
  std::fflush(stdout);
  fmt::print(stderr, "error: {}\n", reason);
  return kFailed;
}

int usage(const CLI::App& program, const std::string& reason) {
  const auto chosen = program.get_subcommands();
  const std::string command = chosen.empty() ? "pastkv" : "pastkv " + chosen.front()->get_name();
  // CLI11's reasons may be several lines.
  const std::string line = reason.substr(0, reason.find('\n'));
  fmt::print(stderr, "{}: {}; see {} --help\n", command, line, command);
  return kUsage;
}

// "inspect, run, ..."
std::string commands_of(const CLI::App& program) {
  std::vector<std::string> names;
  for (const CLI::App* command : program.get_subcommands({})) names.push_back(command->get_name());
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

int main(int argc, char** argv) {
  using namespace pastkv;
  cli::handle_interrupts();
  CLI::App program("Reads, runs, converts and measures language models, with their KV cache.", "pastkv");
  program.set_version_flag("--version", std::string("pastkv ") + std::string(version()));
  program.require_subcommand(0, 1);
  program.get_formatter()->column_width(36);
  cli::add_inspect(program);
  cli::add_run(program);
  cli::add_chat(program);
  cli::add_tokenize(program);
  cli::add_bench(program);
  cli::add_eval(program);
  cli::add_convert(program);
  cli::add_verify(program);
  program.footer(
      "MODEL is a Hugging Face folder, a .gguf file, an ONNX model or an .mlpackage. Start with:\n"
      "  pastkv inspect model.gguf\n"
      "  pastkv run model.gguf --chat -p 'What is the capital of France?'\n"
      "  pastkv bench model.gguf\n"
      "  pastkv convert model.gguf --to onnx -o folder\n"
      "pastkv COMMAND --help shows the options of a command.");
  try {
    program.parse(argc, argv);
    if (program.get_subcommands().empty()) return usage(program, "give a command: " + commands_of(program));
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) return fail("standard output cannot be written");
    return 0;
  } catch (const CLI::Success& success) {  // --help, --version
    return program.exit(success);
  } catch (const CLI::ExtrasError& error) {
    if (!program.get_subcommands().empty()) return usage(program, error.what());
    return usage(program, fmt::format("'{}' is no command; there are {}", argv[1], commands_of(program)));
  } catch (const CLI::ParseError& error) {
    return usage(program, error.what());
  } catch (const cli::UsageError& error) {
    return usage(program, error.what());
  } catch (const cli::AlreadyReported&) {
    std::fflush(stdout);
    return kFailed;
  } catch (const Interrupted&) {
    return kInterrupted;
  } catch (const Error& error) {
    return fail(error.what());
  } catch (const std::bad_alloc&) {
    return fail("there is not enough memory; a smaller --context or a smaller model needs less");
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}
