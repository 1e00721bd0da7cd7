// The steps of rendering a chat template. Inside the room only.
#pragma once

#include <string>

#include "text/chat_template.h"
#include "text/rust_bridge.h"

namespace pastkv::text {

// The template's variables: the special tokens' spellings, and what the caller gives.
nlohmann::ordered_json template_context(const ChatTemplate& chat, const nlohmann::ordered_json& messages,
                                        const RenderOptions& options);
Rendered try_render(const ChatTemplate& chat, const nlohmann::ordered_json& context, const RenderOptions& options);
void throw_if_failed(const ChatTemplate& chat, const Rendered& rendered);

}  // namespace pastkv::text
