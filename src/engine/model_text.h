// The text side of an opened model: its tokenizer, its chat template, the ids that end an answer.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "models/model.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace pastkv::engine {

// Nothing when the model's files hold none. Throws Error when the one they hold is damaged or of an unknown kind.
std::optional<text::Tokenizer> tokenizer_of(const models::Model& model);
std::optional<text::ChatTemplate> chat_template_of(const models::Model& model);

// The model's end-of-sequence ids united with the tokenizer's, ascending.
std::vector<std::int32_t> eos_ids(const models::Model& model, const std::optional<text::Tokenizer>& tokenizer);

}  // namespace pastkv::engine
