#include <string_view>
#include <utility>

#include "targets/gguf/metadata.h"
#include "text/chat_template.h"
#include "text/gguf_vocabulary.h"

namespace pastkv::targets {
namespace {

std::string key(std::string_view name) {
  return "tokenizer.ggml." + std::string(name);
}

std::vector<std::string_view> views(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

}  // namespace

void add_vocabulary(const models::Model& model, GgufDescription& out) {
  const auto& folder = std::get<formats::HfFolder>(model.source);
  const auto vocabulary = text::gguf_vocabulary(folder, model.config.vocab);
  if (!vocabulary) {
    out.metadata.set_string(key("model"), "none");
    out.notes.emplace_back("the folder has no tokenizer.json: the file has no vocabulary");
    return;
  }
  formats::GgufMetadata& metadata = out.metadata;
  metadata.set_string(key("model"), vocabulary->model);
  metadata.set_string(key("pre"), vocabulary->pre);
  metadata.set_strings(key("tokens"), views(vocabulary->tokens));
  metadata.set_i32s(key("token_type"), vocabulary->types);
  if (!vocabulary->scores.empty()) metadata.set_f32s(key("scores"), vocabulary->scores);
  if (!vocabulary->merges.empty()) metadata.set_strings(key("merges"), views(vocabulary->merges));
  for (const auto& [name, id] : vocabulary->ids) metadata.set_u32(key(name), static_cast<std::uint32_t>(id));
  metadata.set_bool(key("add_bos_token"), vocabulary->add_bos);
  metadata.set_bool(key("add_eos_token"), vocabulary->add_eos);
  if (vocabulary->model == "llama") metadata.set_bool(key("add_space_prefix"), vocabulary->add_space_prefix);
  if (const auto chat = text::chat_template(folder)) metadata.set_string("tokenizer.chat_template", chat->source);
  out.notes.insert(out.notes.end(), vocabulary->notes.begin(), vocabulary->notes.end());
}

}  // namespace pastkv::targets
