// The commands of the program, one file each. A command adds itself to the command line; what it does when chosen is
// its CLI11 callback. Failures of the work are thrown as Error, mistakes in the command line as UsageError.
#pragma once

#include <CLI/CLI.hpp>
#include <stdexcept>

namespace pastkv::cli {

// The command line is wrong in a way that CLI11 does not see: exit 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The work failed, and the reason was already told: exit 1 with no further word.
class AlreadyReported : public std::exception {};

void add_inspect(CLI::App& program);
void add_run(CLI::App& program);
void add_chat(CLI::App& program);
void add_tokenize(CLI::App& program);
void add_bench(CLI::App& program);
void add_eval(CLI::App& program);
void add_convert(CLI::App& program);
void add_verify(CLI::App& program);

}  // namespace pastkv::cli
