// Any text as a chat template, over a fixed conversation: a prompt, or an Error.
#include "base/error.h"
#include "text/chat_template.h"

using namespace pastkv;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const text::ChatTemplate chat{.source = std::string(reinterpret_cast<const char*>(data), size),
                                .origin = "fuzz",
                                .tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}}};
  const nlohmann::ordered_json messages = {
      {{"role", "system"}, {"content", "Be <s>brief</s>."}},
      {{"role", "user"}, {"content", "Hi \xF0\x9F\x98\xB8 {{ x }}"}},
      {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {{{"id", 1.5}}}}}};
  try {
    text::render(chat, messages, {.tools = {{{"name", "f"}}}, .now = 0});
  } catch (const Error&) {
  }
  return 0;
}
