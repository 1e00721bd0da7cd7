// What `verify` and the end of `convert` share: two models asked the same text, and what is said of the outcome.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/compare.h"
#include "bench/opened_model.h"

namespace pastkv::cli {

struct VerifyOptions {
  std::string text;
  std::int64_t tokens = 64;    // compared, all together
  std::int64_t generate = 16;  // of them on the cache, one at a time
  bench::Tolerance tolerance;
};

struct Verification {
  std::string name;       // of the model that is judged
  std::string reference;  // of the one it is held to
  std::int64_t prefill_tokens = 0;
  std::int64_t generated_tokens = 0;
  bool has_text = false;  // false: no tokenizer, the bytes of the text stood for ids
  bench::Comparison comparison;
  bench::Tolerance tolerance;
  std::vector<std::string> faults;  // empty: they agree
};

// The tolerance that a faithful copy of one in the type of the other needs.
bench::Tolerance tolerance_for(const bench::OpenedModel& model, const bench::OpenedModel& reference);

// Fewer tokens where one of the two holds less. Caches are f32. Throws Error as the sessions do.
Verification verify(const bench::OpenedModel& model, const bench::OpenedModel& reference, const VerifyOptions& options,
                    const std::function<void(std::int64_t done, std::int64_t of)>& progress);

std::string to_text(const Verification& verification);
nlohmann::ordered_json to_json(const Verification& verification);

}  // namespace pastkv::cli
