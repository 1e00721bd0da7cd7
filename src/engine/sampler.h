// From logits to a token. Every filter keeps at least one candidate; ties go to the lowest id.
//
// Order of the steps, as in transformers: repetition penalty, temperature, top-k, top-p, min-p.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace pastkv::engine {

struct SamplerOptions {
  float temperature = 0.0F;         // 0: greedy
  std::int64_t top_k = 0;           // the k likeliest; 0: off
  float top_p = 1.0F;               // the fewest likeliest whose mass reaches p; 1: off, 0: one
  float min_p = 0.0F;               // those at least this times as likely as the likeliest; 0: off
  float repetition_penalty = 1.0F;  // over prompt and answer, once per distinct token; 1: off
  std::uint64_t seed = 0;
};

// Throws Error naming the option that is out of range.
void check(const SamplerOptions& options);

struct Candidate {
  std::int32_t id;
  float probability;
};

// What may be drawn, most likely first, probabilities summing to 1. `seen` are the ids that the penalty touches; ids
// from `vocabulary` on (rows of a padded head) are never candidates. Throws Error when a logit is NaN or none is finite
// (+inf counts as certain).
std::vector<Candidate> candidates(std::span<const float> logits, std::span<const std::int32_t> seen,
                                  std::int64_t vocabulary, const SamplerOptions& options);

// Draws one of the candidates. The same seed and logits give the same ids on every machine and any number of threads.
class Sampler {
 public:
  explicit Sampler(SamplerOptions options);
  std::int32_t sample(std::span<const float> logits, std::span<const std::int32_t> seen, std::int64_t vocabulary);

 private:
  SamplerOptions options_;
  std::mt19937_64 random_;
};

struct TokenLogprob {
  std::int32_t id;
  float logprob;  // natural logarithm, of the model's own distribution (no temperature, no filter)
};

TokenLogprob logprob_of(std::span<const float> logits, std::int32_t id);

// Most likely first, ties to the lowest id; all of them when `count` is larger.
std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, std::size_t count);

}  // namespace pastkv::engine
