// The options of `convert`: each belongs to one target or to several, and becomes a field of what that target's writer
// takes.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "models/model.h"
#include "targets/target.h"

namespace pastkv::cli {

enum class Target : std::uint8_t { coreml, onnx, gguf, hf };
std::string name(Target target);

class TargetOptions {
 public:
  void add_to(CLI::App& command);

  // Throws UsageError: an option that the target does not have (says which has it), a value that it does not take.
  void check(Target target) const;

  // As the targets' write functions. `check` comes first.
  targets::Written write(Target target, const models::Model& model, const std::filesystem::path& out,
                         const targets::WriteContext& context) const;

 private:
  struct Owned {
    CLI::Option* option;
    std::vector<Target> targets;
  };
  void own(CLI::Option* option, const std::vector<Target>& targets);

  std::vector<Owned> owned_;
  std::string dtype_;
  std::string precision_;
  std::uint64_t split_size_ = 0;
  bool no_tokenizer_ = false;
  std::uint64_t shard_size_ = 5'000'000'000;
  std::string ops_ = "standard";
  bool require_logits_to_keep_ = false;
  std::int64_t context_ = 0;
  std::string repository_;
};

}  // namespace pastkv::cli
