#include "cli/convert_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/command.h"
#include "targets/coreml/write.h"
#include "targets/gguf/write.h"
#include "targets/hf/write.h"
#include "targets/onnx/write.h"

namespace pastkv::cli {
namespace {

[[noreturn]] void refuse_value(const char* option, const std::string& value, Target target, const std::string& known) {
  throw UsageError(fmt::format("{} {} is none that --to {} takes; it takes {}", option, value, name(target), known));
}

bool contains(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

targets::GgufType gguf_type(const std::string& dtype) {
  if (dtype.empty()) return targets::GgufType::as_stored;
  const auto type = targets::gguf_type_from_name(dtype);
  if (!type) refuse_value("--dtype", dtype, Target::gguf, targets::gguf_type_names());
  return *type;
}

std::optional<tensor::DType> hf_type(const std::string& dtype) {
  if (dtype.empty()) return std::nullopt;
  if (!contains({"f32", "f16", "bf16"}, dtype)) refuse_value("--dtype", dtype, Target::hf, "f32, f16, bf16");
  return tensor::dtype_from_name(dtype);
}

targets::OnnxPrecision onnx_precision(const std::string& precision) {
  if (precision.empty()) return {};
  const auto known = targets::onnx_precision_from_name(precision);
  if (!known) refuse_value("--precision", precision, Target::onnx, "fp32, fp16, int8, int4");
  return *known;
}

targets::CoremlPrecision coreml_precision(const std::string& precision) {
  if (precision.empty() || precision == "fp16") return targets::CoremlPrecision::fp16;
  if (precision == "fp32") return targets::CoremlPrecision::fp32;
  if (precision == "mixed") return targets::CoremlPrecision::mixed;
  refuse_value("--precision", precision, Target::coreml, "fp16, fp32, mixed");
}

}  // namespace

std::string name(Target target) {
  switch (target) {
    case Target::coreml:
      return "coreml";
    case Target::onnx:
      return "onnx";
    case Target::gguf:
      return "gguf";
    case Target::hf:
      return "hf";
  }
  return "hf";
}

void TargetOptions::own(CLI::Option* option, const std::vector<Target>& targets) {
  std::string group = "With --to ";
  for (std::size_t i = 0; i < targets.size(); ++i) group += (i > 0 ? " or " : "") + name(targets[i]);
  option->group(group);
  owned_.push_back({option, targets});
}

void TargetOptions::add_to(CLI::App& command) {
  const std::vector<Target> with_types = {Target::gguf, Target::hf};
  own(command.add_option(
          "--dtype", dtype_,
          "type of the weights; gguf: " + targets::gguf_type_names() + "; hf: f32, f16, bf16 (default: as stored)"),
      with_types);
  const std::vector<Target> with_precision = {Target::coreml, Target::onnx};
  own(command.add_option("--precision", precision_,
                         "what is computed in; coreml: fp16 (default), fp32, mixed; onnx: fp32 (default), fp16, int8, "
                         "int4"),
      with_precision);
  own(command.add_option("--split-size", split_size_, "most bytes of one part: 4GB (default: one file)")
          ->transform(CLI::AsSizeValue(true)),
      {Target::gguf});
  own(command.add_flag("--no-tokenizer", no_tokenizer_, "leave the vocabulary out"), {Target::gguf});
  own(command.add_option("--shard-size", shard_size_, "most bytes of one file (default: 5GB)")
          ->transform(CLI::AsSizeValue(true)),
      {Target::hf});
  own(command.add_option("--ops", ops_, "standard: runs anywhere; contrib: also ONNX Runtime's own operations")
          ->capture_default_str(),
      {Target::onnx});
  own(command.add_flag("--require-logits-to-keep", require_logits_to_keep_,
                       "make num_logits_to_keep an input that must be given, for transformers.js alone"),
      {Target::onnx});
  own(command
          .add_option("-c,--context", context_, "tokens that the states hold (default: the model's own, at most 2048)")
          ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 31)),
      {Target::coreml});
  own(command.add_option("--repository", repository_,
                         "where users find the tokenizer: owner/name on the hub (default: the model's name)"),
      {Target::coreml});
}

void TargetOptions::check(Target target) const {
  for (const Owned& owned : owned_) {
    if (owned.option->count() == 0) continue;
    if (std::find(owned.targets.begin(), owned.targets.end(), target) != owned.targets.end()) continue;
    std::vector<std::string> names;
    for (const Target other : owned.targets) names.push_back(name(other));
    throw UsageError(fmt::format("{} belongs to --to {}, not to --to {}", owned.option->get_name(),
                                 fmt::join(names, " and "), name(target)));
  }
  switch (target) {
    case Target::coreml:
      coreml_precision(precision_);
      break;
    case Target::onnx:
      onnx_precision(precision_);
      if (!targets::onnx_ops_from_name(ops_)) refuse_value("--ops", ops_, target, "standard, contrib");
      break;
    case Target::gguf:
      gguf_type(dtype_);
      break;
    case Target::hf:
      hf_type(dtype_);
      break;
  }
}

targets::Written TargetOptions::write(Target target, const models::Model& model, const std::filesystem::path& out,
                                      const targets::WriteContext& context) const {
  switch (target) {
    case Target::coreml:
      return targets::write_coreml(
          model, out, {.precision = coreml_precision(precision_), .context = context_, .repository = repository_},
          context);
    case Target::onnx:
      return targets::write_onnx(model, out,
                                 {.ops = targets::onnx_ops_from_name(ops_).value_or(targets::OnnxOps::standard),
                                  .precision = onnx_precision(precision_),
                                  .require_logits_to_keep = require_logits_to_keep_},
                                 context);
    case Target::gguf:
      return targets::write_gguf(
          model, out, {.type = gguf_type(dtype_), .split_size = split_size_, .tokenizer = !no_tokenizer_}, context);
    case Target::hf:
      return targets::write_hf(model, out, {.type = hf_type(dtype_), .shard_size = shard_size_}, context);
  }
  throw std::logic_error("a target without a writer");
}

}  // namespace pastkv::cli
