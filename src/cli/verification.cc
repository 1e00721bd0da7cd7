#include "cli/verification.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "bench/prompt.h"
#include "cli/table.h"

namespace pastkv::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string limits_text(const bench::Tolerance& tolerance) {
  const std::string largest = tolerance.largest > 0 ? fmt::format("largest {:.3g}, ", tolerance.largest) : "";
  return fmt::format("allowed: {}KL {:.3g}, top-1 at least {:.1f} %", largest, tolerance.kl, 100 * tolerance.agreement);
}

void add_row(Table& table, const char* role, const bench::LogitsDifference& d) {
  table.add({role, fmt::format("{}", d.rows()), fmt::format("{:.2e}", d.largest()), fmt::format("{:.2e}", d.mean()),
             fmt::format("{:.2e}", d.kl()), fmt::format("{:.1f} %", 100 * d.top1_agreement())});
}

// JSON knows no infinity.
Json number(double x) {
  return std::isfinite(x) ? Json(x) : Json(nullptr);
}

Json json_of(const bench::LogitsDifference& d) {
  return {{"tokens", d.rows()},   {"largest_difference", number(d.largest())}, {"mean_difference", number(d.mean())},
          {"kl", number(d.kl())}, {"largest_kl", number(d.largest_kl())},      {"top1_agreement", d.top1_agreement()}};
}

}  // namespace

bench::Tolerance tolerance_for(const bench::OpenedModel& model, const bench::OpenedModel& reference) {
  const int ours = model.weight_bits();
  const int theirs = reference.weight_bits();
  return bench::tolerance_for(ours == 0 || theirs == 0 ? std::max(ours, theirs) : std::min(ours, theirs));
}

Verification verify(const bench::OpenedModel& model, const bench::OpenedModel& reference, const VerifyOptions& options,
                    const std::function<void(std::int64_t done, std::int64_t of)>& progress) {
  std::int64_t tokens = options.tokens;
  for (const bench::OpenedModel* side : {&model, &reference}) {
    if (side->max_positions > 0) tokens = std::min(tokens, side->max_positions);
  }
  if (tokens < 2) {
    throw Error({.file = model.path.string(),
                 .place = {},
                 .reason = fmt::format("{} token of text is too little to compare a prefill and cached steps", tokens),
                 .remedy = "give --tokens 2 or more"});
  }
  const bool has_text = reference.tokenizer.has_value() || model.tokenizer.has_value();
  const std::vector<std::int32_t> ids = bench::prompt_ids(reference.tokenizer ? reference.tokenizer : model.tokenizer,
                                                          options.text, tokens, std::min(model.vocab, reference.vocab));
  const std::int64_t generated = std::clamp<std::int64_t>(options.generate, 1, tokens - 1);
  const engine::SessionOptions session = {.context = tokens, .cache_type = tensor::DType::f32};
  Verification out;
  out.name = model.name;
  out.reference = reference.name;
  out.prefill_tokens = tokens - generated;
  out.generated_tokens = generated;
  out.has_text = has_text;
  out.tolerance = options.tolerance;
  out.comparison = bench::compare(*model.session(session), *reference.session(session), ids, tokens - generated,
                                  [&](std::int64_t done) {
                                    if (progress) progress(done, tokens);
                                  });
  out.faults = bench::faults(out.comparison, out.tolerance);
  return out;
}

std::string to_text(const Verification& v) {
  Table table({{""},
               {"tokens", Align::right},
               {"largest", Align::right},
               {"mean", Align::right},
               {"KL", Align::right},
               {"top-1", Align::right}});
  add_row(table, "prefill", v.comparison.prefill);
  add_row(table, "generation", v.comparison.generation);
  std::string out = fmt::format("{} against {}: logits, differences over their standard deviation\n{}", v.name,
                                v.reference, table.text(2));
  for (const std::string& fault : v.faults) out += fmt::format("  {}\n", fault);
  return out + fmt::format("{} ({})\n", v.faults.empty() ? "agrees" : "differs", limits_text(v.tolerance));
}

Json to_json(const Verification& v) {
  Json out;
  out["model"] = v.name;
  out["reference"] = v.reference;
  out["text"] = v.has_text;
  out["prefill"] = json_of(v.comparison.prefill);
  out["generation"] = json_of(v.comparison.generation);
  out["allowed"] = {{"largest_difference", v.tolerance.largest > 0 ? Json(v.tolerance.largest) : Json(nullptr)},
                    {"kl", v.tolerance.kl},
                    {"top1_agreement", v.tolerance.agreement}};
  out["faults"] = v.faults;
  out["agrees"] = v.faults.empty();
  return out;
}

}  // namespace pastkv::cli
