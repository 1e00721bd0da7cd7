// The generation loop: prefill, then one token at a time until a stop.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/executor.h"
#include "engine/sampler.h"
#include "text/tokenizer.h"

namespace pastkv::engine {

enum class Finish : std::uint8_t { length, stop, eos };
std::string_view name(Finish finish);

struct GenerateOptions {
  SamplerOptions sampler;
  std::int64_t max_tokens = 128;
  std::vector<std::string> stop;      // texts; none of them is given out
  std::vector<std::int32_t> eos_ids;  // any of them ends the answer and is not part of it
  std::size_t logprobs = 0;           // most likely tokens to report per step
};

struct GenerateStep {
  std::int32_t id = 0;
  float logprob = 0;
  std::vector<TokenLogprob> top;
};

struct GenerateTiming {
  double prefill_ms = 0;
  double generation_ms = 0;  // all steps after the first token
  double time_to_first_token_ms = 0;
};

struct Generated {
  std::vector<std::int32_t> ids;
  std::string text;  // empty when there is no tokenizer
  std::vector<GenerateStep> steps;
  Finish finish = Finish::length;
  GenerateTiming timing;
};

// Runs `prompt` (all of it is seen by the model; a common prefix with what the session holds is not computed again).
// `tokenizer` may be null (then stop texts are refused). `emit` receives text as it becomes final; may be empty.
// Throws Error when the prompt is empty or longer than the context.
Generated generate(Session& session, std::span<const std::int32_t> prompt, const text::Tokenizer* tokenizer,
                   const GenerateOptions& options, const std::function<void(std::string_view)>& emit);

}  // namespace pastkv::engine
