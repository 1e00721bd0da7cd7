// Perplexity of a text, by the method of llama-perplexity, so that the numbers can be compared.
//
// The text is cut into chunks of `context` tokens, each seen alone; the first token of a chunk gives way to BOS when
// the tokenizer adds one. The second half of a chunk is scored: the tokens at context / 2 + 1 .. context - 1.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "engine/session.h"

namespace pastkv::bench {

// Sums of negative log probabilities and of their squares.
class PerplexityScore {
 public:
  void add(double logprob);
  std::int64_t tokens() const { return tokens_; }
  double perplexity() const;  // exp of the mean; 0 when nothing was scored
  double error() const;       // of the perplexity, one standard error of the mean; 0 for less than two tokens

 private:
  std::int64_t tokens_ = 0;
  double sum_ = 0;
  double squares_ = 0;
};

// `session` must hold `context` tokens. Scores at most `chunks` of them (1 or more; negative: all). `progress` is told
// after each chunk; may be empty. Throws Error when there is no whole chunk, or logits are no numbers.
PerplexityScore perplexity(engine::Session& session, std::span<const std::int32_t> tokens,
                           std::optional<std::int32_t> bos, std::int64_t context, std::int64_t chunks,
                           const std::function<void(std::int64_t done, std::int64_t of, double so_far)>& progress);

}  // namespace pastkv::bench
