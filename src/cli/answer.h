// What `run` and `chat` share: a conversation as token ids, and how fast an answer came.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"
#include "engine/generate.h"
#include "text/chat_template.h"

namespace pastkv::cli {

// The model's own chat template and tokenizer. Throws Error when the model has none: no prompt is ever made up.
text::ChatTemplate require_template(const bench::OpenedModel& loaded, const std::filesystem::path& path);
const text::Tokenizer& require_tokenizer(const bench::OpenedModel& loaded, const std::filesystem::path& path,
                                         std::string_view remedy);

// Tokens that the cache must hold. `asked` 0: what is needed, within what the model was trained for.
std::int64_t context_for(const bench::OpenedModel& loaded, std::int64_t asked, std::int64_t needed, bool quiet);

// "prefill 12 tokens in 34.1 ms (352 tok/s), ...": one line.
std::string stats_line(const engine::Generated& answer, std::size_t prompt_tokens);

}  // namespace pastkv::cli
