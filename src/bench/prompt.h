// The text that models are measured and compared with, as ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace pastkv::bench {

// The prompt that is used when none is given: plain English prose.
std::string_view default_prompt();

// Exactly `count` ids of `text`, with the BOS the model asks for; a text too short is repeated. Without a tokenizer the
// text's bytes stand for ids. Throws Error when the text gives no tokens.
std::vector<std::int32_t> prompt_ids(const std::optional<text::Tokenizer>& tokenizer, std::string text,
                                     std::int64_t count, std::int64_t vocab);

}  // namespace pastkv::bench
