// Chat templates as Hugging Face defines them (trim_blocks, lstrip_blocks, tojson, strftime_now, raise_exception),
// rendered by minijinja behind a C interface (rust/).
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace pastkv::text {

struct ChatTemplate {
  std::string source;     // the template's text
  std::string origin;     // file and key it came from
  nlohmann::json tokens;  // bos_token, eos_token, ... as strings, for the template
};

// Order: chat_template.jinja, then tokenizer_config.json (a string, or a list of {name, template}: "default", or
// "tool_use" when tools are given). Nothing when the model has none: no prompt is ever invented.
std::optional<ChatTemplate> chat_template(const formats::HfFolder& folder, bool with_tools = false);
std::optional<ChatTemplate> chat_template(const formats::GgufFile& file, bool with_tools = false);

struct RenderOptions {
  bool add_generation_prompt = true;
  nlohmann::ordered_json tools;                                     // null: none
  nlohmann::ordered_json extra = nlohmann::ordered_json::object();  // further variables of the template
  std::optional<std::int64_t> now;  // a fixed clock for tests: seconds since the epoch, as local time reads
};

// `messages`: an array of {role, content, ...}; the order of keys is kept, it shows in the prompt (tools). Throws Error
// with the template's own message when it refuses them.
std::string render(const ChatTemplate& chat, const nlohmann::ordered_json& messages, const RenderOptions& options);

// Renders and encodes. Nothing is added before or after the rendered text. What messages, tools and extra variables say
// is not trusted: the spelling of a special token inside it, or of another added token that the template itself writes
// (a turn marker that the model's files forgot to call special), stays text, unless `parse_special_in_content`. Where
// the template's own logic reads such a spelling (</think> in an answer), that one is left as the template sees it;
// where even special tokens cannot be told from the template's own, it throws Error.
std::vector<std::int32_t> encode_chat(const ChatTemplate& chat, const nlohmann::ordered_json& messages,
                                      const RenderOptions& options, const Tokenizer& tokenizer,
                                      bool parse_special_in_content = false);

}  // namespace pastkv::text
