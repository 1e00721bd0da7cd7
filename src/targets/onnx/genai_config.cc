#include "targets/onnx/genai_config.h"

namespace pastkv::targets {
namespace {

using nlohmann::ordered_json;

// "decoder" is its type for any model with these inputs and outputs; heads and widths it reads off the inputs.
ordered_json decoder(const models::Model& model, const std::string& file, bool position_ids) {
  const models::LayerConfig& first = model.config.layers.front();
  ordered_json inputs = {{"input_ids", "input_ids"}, {"attention_mask", "attention_mask"}};
  if (position_ids) inputs["position_ids"] = "position_ids";
  inputs["past_key_names"] = "past_key_values.%d.key";
  inputs["past_value_names"] = "past_key_values.%d.value";
  return {
      {"session_options", {{"log_id", "onnxruntime-genai"}, {"provider_options", ordered_json::array()}}},
      {"filename", file},
      {"head_size", first.head_dim},
      {"hidden_size", model.config.hidden},
      {"inputs", inputs},
      {"outputs",
       {{"logits", "logits"}, {"present_key_names", "present.%d.key"}, {"present_value_names", "present.%d.value"}}},
      {"num_attention_heads", first.heads},
      {"num_hidden_layers", model.config.layers.size()},
      {"num_key_value_heads", first.kv_heads}};
}

// A token of config.json, which may hold a list.
std::int64_t token(const ordered_json& config, const char* key, std::int64_t otherwise) {
  const auto found = config.find(key);
  return found != config.end() && found->is_number_integer() ? found->get<std::int64_t>() : otherwise;
}

}  // namespace

ordered_json genai_config(const models::Model& model, const ordered_json& config, const std::string& file,
                          bool position_ids) {
  const std::int64_t end = model.eos_ids.empty() ? 0 : model.eos_ids.front();
  const ordered_json about = {{"type", "decoder"},
                              {"context_length", model.config.max_positions},
                              {"vocab_size", model.config.vocab},
                              {"bos_token_id", token(config, "bos_token_id", end)},
                              {"eos_token_id", model.eos_ids},
                              {"pad_token_id", token(config, "pad_token_id", end)},
                              {"decoder", decoder(model, file, position_ids)}};
  const ordered_json search = {{"do_sample", false},
                               {"max_length", model.config.max_positions},
                               {"min_length", 0},
                               {"num_beams", 1},
                               {"num_return_sequences", 1},
                               {"past_present_share_buffer", false},
                               {"repetition_penalty", 1.0},
                               {"temperature", 1.0},
                               {"top_k", 50},
                               {"top_p", 1.0}};
  return {{"model", about}, {"search", search}};
}

}  // namespace pastkv::targets
