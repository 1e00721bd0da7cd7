#include "engine/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace pastkv::engine {

std::span<const float> Session::forward(std::span<const std::int32_t> ids, std::int64_t rows) {
  const std::int64_t count = std::ssize(ids);
  if (count == 0) throw Error({.file = {}, .place = {}, .reason = "no tokens given", .remedy = "give at least one"});
  if (count > context() - past_length()) {
    throw Error({.file = {},
                 .place = {},
                 .reason = fmt::format("{} tokens held and {} more do not fit a context of {}", past_length(), count,
                                       context()),
                 .remedy = "choose a larger context or a shorter prompt"});
  }
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocab()) {
      throw Error({.file = {},
                   .place = fmt::format("token {}", id),
                   .reason = fmt::format("is outside the vocabulary of {}", vocab()),
                   .remedy = "use the model's own tokenizer"});
    }
  }
  return run(ids, std::clamp<std::int64_t>(rows, 0, count));
}

std::int64_t Session::truncate(std::int64_t length) {
  if (length < 0) {
    throw Error(
        {.file = {}, .place = {}, .reason = fmt::format("a cache cannot be cut to {} tokens", length), .remedy = {}});
  }
  return keep(length);
}

}  // namespace pastkv::engine
