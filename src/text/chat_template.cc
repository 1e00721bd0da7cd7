#include "text/chat_template.h"

#include <ctime>

#include "base/error.h"
#include "text/render.h"

namespace pastkv::text {
namespace {

using nlohmann::json;

// A template of tokenizer_config.json: a string, or a list of {name, template}.
std::optional<std::string> pick(const json& value, bool with_tools, const std::string& file) {
  if (value.is_null()) return std::nullopt;
  if (value.is_string()) return value.get<std::string>();
  std::optional<std::string> found;
  const auto fail = [&file](std::string reason) {
    throw Error({.file = file, .place = "chat_template", .reason = std::move(reason)});
  };
  if (!value.is_array()) fail("is neither a string nor a list of {name, template}");
  for (const json& entry : value) {
    if (!entry.is_object() || !entry.contains("name") || !entry.contains("template") ||
        !entry["template"].is_string()) {
      fail("has an entry that is not {name, template}");
    }
    const bool wanted = with_tools && entry["name"] == "tool_use";
    if (wanted || (entry["name"] == "default" && !found)) found = entry["template"].get<std::string>();
    if (wanted) return found;
  }
  if (!found && !value.empty()) fail("lists no template named \"default\"");
  return found;
}

json special_tokens(const json& config) {
  json tokens = json::object();
  if (!config.is_object()) return tokens;
  for (const auto& [key, value] : config.items()) {
    if (!key.ends_with("_token")) continue;
    if (value.is_string()) tokens[key] = value;
    if (value.is_object() && value.contains("content")) tokens[key] = value["content"];
  }
  return tokens;
}

// What a template would be given broken is refused, as any other text is.
void require_utf8(const nlohmann::ordered_json& content, const char* place) {
  try {
    static_cast<void>(content.dump());
  } catch (const nlohmann::json::type_error&) {
    throw Error({.file = {}, .place = place, .reason = "is not UTF-8", .remedy = "give text in UTF-8"});
  }
}

std::int64_t local_now() {
  const std::time_t now = std::time(nullptr);
  std::tm fields{};
  localtime_r(&now, &fields);
  return timegm(&fields);
}

}  // namespace

std::optional<ChatTemplate> chat_template(const formats::HfFolder& folder, bool with_tools) {
  ChatTemplate chat{.tokens = special_tokens(folder.tokenizer_config)};
  if (folder.chat_template) {
    chat.source = *folder.chat_template;
    chat.origin = (folder.path / "chat_template.jinja").string();
    return chat;
  }
  const std::string file = (folder.path / "tokenizer_config.json").string();
  if (!folder.tokenizer_config.is_object() || !folder.tokenizer_config.contains("chat_template")) return std::nullopt;
  const auto source = pick(folder.tokenizer_config["chat_template"], with_tools, file);
  if (!source) return std::nullopt;
  chat.source = *source;
  chat.origin = file + ": chat_template";
  return chat;
}

std::optional<ChatTemplate> chat_template(const formats::GgufFile& file, bool with_tools) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  const std::string with_tools_key = std::string(kKey) + ".tool_use";
  std::string key(kKey);
  if (with_tools && file.metadata.contains(with_tools_key)) key = with_tools_key;
  const auto source = file.find_string(key);
  if (!source) return std::nullopt;
  ChatTemplate chat{.source = *source, .origin = file.path.string() + ": " + key, .tokens = json::object()};
  const auto* tokens = file.find_strings("tokenizer.ggml.tokens");
  constexpr std::pair<const char*, const char*> kTokens[] = {{"bos_token", "tokenizer.ggml.bos_token_id"},
                                                             {"eos_token", "tokenizer.ggml.eos_token_id"},
                                                             {"unk_token", "tokenizer.ggml.unknown_token_id"},
                                                             {"pad_token", "tokenizer.ggml.padding_token_id"}};
  for (const auto& [name, id_key] : kTokens) {
    const auto id = file.find_int(id_key);
    if (!id || tokens == nullptr || *id < 0 || static_cast<std::uint64_t>(*id) >= tokens->size()) continue;
    chat.tokens[name] = std::string((*tokens)[static_cast<std::size_t>(*id)]);
  }
  return chat;
}

Rendered try_render(const ChatTemplate& chat, const nlohmann::ordered_json& context, const RenderOptions& options) {
  using Handler = nlohmann::ordered_json::error_handler_t;
  return render_with(chat.source, context.dump(-1, ' ', false, Handler::replace),
                     options.now ? *options.now : local_now());
}

nlohmann::ordered_json template_context(const ChatTemplate& chat, const nlohmann::ordered_json& messages,
                                        const RenderOptions& options) {
  require_utf8(messages, "messages");
  require_utf8(options.tools, "tools");
  require_utf8(options.extra, "variables of the template");
  nlohmann::ordered_json context = {{"messages", messages},
                                    {"tools", options.tools},
                                    {"documents", nullptr},
                                    {"add_generation_prompt", options.add_generation_prompt}};
  for (const auto& [name, value] : chat.tokens.items()) context[name] = value;
  for (const auto& [name, value] : options.extra.items()) context[name] = value;
  return context;
}

void throw_if_failed(const ChatTemplate& chat, const Rendered& rendered) {
  if (!rendered.failed) return;
  if (rendered.refused) {
    throw Error({.file = chat.origin, .reason = "the chat template refuses these messages: " + rendered.text});
  }
  throw Error({.file = chat.origin, .reason = "the chat template failed: " + rendered.text});
}

std::string render(const ChatTemplate& chat, const nlohmann::ordered_json& messages, const RenderOptions& options) {
  Rendered rendered = try_render(chat, template_context(chat, messages, options), options);
  throw_if_failed(chat, rendered);
  return std::move(rendered.text);
}

}  // namespace pastkv::text
