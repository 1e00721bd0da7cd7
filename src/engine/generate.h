// The generation loop: prefill, then one token at a time until a stop.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/sampler.h"
#include "engine/session.h"
#include "text/tokenizer.h"

namespace pastkv::engine {

enum class Finish : std::uint8_t {
  length,     // max_tokens, or the context is full
  stop,       // a stop text
  eos,        // an end-of-sequence token
  cancelled,  // asked from outside
};
std::string_view name(Finish finish);

struct GenerateOptions {
  SamplerOptions sampler;
  std::int64_t max_tokens = 128;              // negative: until the context is full
  std::vector<std::string> stop;              // texts, or spellings of special tokens; none of them is given out
  std::vector<std::int32_t> eos_ids;          // any of them ends the answer and is not part of it
  bool score = false;                         // the log probability of each token; costs a pass over the vocabulary
  std::size_t logprobs = 0;                   // most likely tokens to report per step; implies `score`
  const std::atomic<bool>* cancel = nullptr;  // looked at after each token
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
  std::string text;                 // empty when there is no tokenizer
  std::vector<GenerateStep> steps;  // one per id when `score`
  Finish finish = Finish::length;
  GenerateTiming timing;
  std::int64_t reused_tokens = 0;   // of the prompt, found in the cache
  std::int64_t decoded_tokens = 0;  // calls that generation_ms is made of: tokens drawn after the first, EOS included
};

// Runs `prompt` (all of it is seen by the model; a common prefix with what the session holds is not computed again).
// `tokenizer` may be null (then stop texts are refused). `emit` receives text as it becomes final; may be empty.
// Throws Error when the prompt is empty, holds an id outside the model's vocabulary, is longer than the context, or
// fills it while tokens are asked for.
Generated generate(Session& session, std::span<const std::int32_t> prompt, const text::Tokenizer* tokenizer,
                   const GenerateOptions& options, const std::function<void(std::string_view)>& emit);

}  // namespace pastkv::engine
