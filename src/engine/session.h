// One sequence of tokens with its cache, and the logits that a model gives to it: what generation, perplexity and
// comparisons ask, whoever computes the model. Sessions of the engine: executor.h; of the reference interpreter:
// interpreted_session.h.
#pragma once

#include <cstdint>
#include <span>

namespace pastkv::engine {

class Session {
 public:
  Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  virtual ~Session() = default;

  // Runs `ids` on top of the cache. Gives logits of the last `rows` of them: [rows, vocab], valid until the next call.
  // Throws Error when they do not fit the context, or an id is outside the vocabulary.
  std::span<const float> forward(std::span<const std::int32_t> ids, std::int64_t rows = 1);

  std::int64_t past_length() const { return static_cast<std::int64_t>(ids().size()); }
  virtual std::span<const std::int32_t> ids() const = 0;  // what the cache holds; valid until the next call
  virtual std::int64_t context() const = 0;               // tokens that it can hold
  virtual std::int64_t vocab() const = 0;
  virtual std::uint64_t state_bytes() const = 0;  // allocated for the states

  // Keeps the first `length` positions (clamped to past_length; negative throws). Gives the length kept: less than
  // asked, down to 0, when a window layer no longer holds what the next token would have to see.
  std::int64_t truncate(std::int64_t length);

 private:
  // `ids` are some, fit and are of the vocabulary; `rows` is at most their count.
  virtual std::span<const float> run(std::span<const std::int32_t> ids, std::int64_t rows) = 0;
  virtual std::int64_t keep(std::int64_t length) = 0;  // `length` is not negative
};

}  // namespace pastkv::engine
