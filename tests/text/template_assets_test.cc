// Published chat templates against Jinja2: tests/tools/render_templates.py made the golden file.

#include <fstream>

#include "assets.h"
#include "tiny.h"

namespace pastkv::text {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kNow = 1722000000;

// Adding to a string that |safe marked escapes the rest as HTML in Jinja2; this template does it without wanting to.
constexpr std::string_view kEscapes = "meetkai-functionary-medium-v3.1.jinja";

std::string digest(const std::string& text) {
  std::uint64_t value = 0xCBF29CE484222325;
  for (const char byte : text) value = (value ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
  char hex[17];
  std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(value));
  return std::to_string(text.size()) + ":" + hex;
}

std::string outcome(const ChatTemplate& chat, const Json& conversation) {
  RenderOptions options{.add_generation_prompt = conversation.value("add_generation_prompt", true),
                        .tools = conversation.value("tools", Json()),
                        .extra = conversation.value("extra", Json::object()),
                        .now = kNow};
  try {
    return digest(render(chat, conversation["messages"], options));
  } catch (const Error&) {
    return "raises";
  }
}

TEST(PublishedTemplates, RenderAsJinjaDoes) {
  const std::filesystem::path data = std::filesystem::path(PASTKV_TEST_DATA) / "text";
  const Json conversations = Json::parse(read_text(data / "conversations.json"));
  const json golden = json::parse(read_text(data / "template_golden.json"));
  ASSERT_GE(golden.size(), 71u);
  const std::filesystem::path templates = assets_folder() / "llama.cpp" / "models" / "templates";
  for (const auto& [name, wanted] : golden.items()) {
    if (name == kEscapes) continue;
    const ChatTemplate chat{
        .source = read_text(templates / name),
        .origin = name,
        .tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"pad_token", "<pad>"}, {"unk_token", "<unk>"}}};
    for (const Json& conversation : conversations) {
      const std::string which = conversation["name"];
      EXPECT_EQ(outcome(chat, conversation), wanted[which]) << name << " " << which;
    }
  }
}

}  // namespace
}  // namespace pastkv::text
