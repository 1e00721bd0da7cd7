#include "targets/hf/side_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <utility>

#include "base/mapped_file.h"
#include "models/architecture.h"
#include "text/chat_template.h"
#include "text/tokenizer_json.h"

namespace pastkv::targets {
namespace {

namespace fs = std::filesystem;
using formats::GgufFile;
using formats::HfFolder;
using models::HfJson;

// Files of a folder that go over as they are, where they exist.
constexpr std::string_view kCompanions[] = {"generation_config.json", "tokenizer.json",      "tokenizer_config.json",
                                            "tokenizer.model",        "vocab.json",          "merges.txt",
                                            "added_tokens.json",      "chat_template.jinja", "special_tokens_map.json"};

// A special token's id, or null: a class has a default where the key is absent, which may be outside the vocabulary.
HfJson id_of(const GgufFile& file, std::string_view name) {
  const auto id = file.find_int(fmt::format("tokenizer.ggml.{}_token_id", name == "pad" ? "padding" : name));
  return id ? HfJson(*id) : HfJson(nullptr);
}

HfJson generation_config_of(const models::Model& model, const HfJson& config) {
  HfJson generation = HfJson::object();
  for (const char* key : {"bos_token_id", "pad_token_id"}) {
    if (config.contains(key) && !config[key].is_null()) generation[key] = config[key];
  }
  if (!model.eos_ids.empty()) generation["eos_token_id"] = model.eos_ids;
  return generation;
}

// The small files, each written whole.
class Companions {
 public:
  Companions(const OutputFolder& folder, Written& written) : folder_(folder), written_(written) {}

  void text(const std::string& name, std::string_view text) {
    OutputFile file = folder_.file(name);
    file.write(text);
    written_.files.push_back(name);
    written_.bytes += file.size();
    file.commit();
  }
  void json(const std::string& name, const HfJson& object) { text(name, object.dump(2) + "\n"); }

  void copy(const HfFolder& from) {
    for (const std::string_view name : kCompanions) {
      const fs::path path = from.path / name;
      if (!fs::is_regular_file(path)) continue;
      const auto file = MappedFile::open(path);
      text(std::string(name), {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()});
    }
  }

 private:
  const OutputFolder& folder_;
  Written& written_;
};

void write_companions(const models::Model& model, const HfJson& config, Companions& companions, Written& written) {
  if (const auto* folder = std::get_if<HfFolder>(&model.source)) return companions.copy(*folder);
  companions.json("generation_config.json", generation_config_of(model, config));
  const auto& file = std::get<GgufFile>(model.source);
  if (file.find_strings("tokenizer.ggml.tokens") == nullptr) {
    written.notes.emplace_back("the file has no vocabulary: the folder has no tokenizer");
    return;
  }
  companions.text("tokenizer.json", text::tokenizer_json(file));
  companions.json("tokenizer_config.json", text::tokenizer_config(file));
  if (const auto chat = text::chat_template(file)) companions.text("chat_template.jinja", chat->source);
}

}  // namespace

HfJson hf_config(const models::Model& model, std::string_view type) {
  HfJson config = HfJson::object();
  models::architecture_of(model.config).write_hf(model.config, config);
  if (const auto* folder = std::get_if<HfFolder>(&model.source)) {
    // The source's own keys are kept. What it spells otherwise, as other versions of transformers do, is there twice.
    // Only the text part of a model with vision is written, whose keys are in an object of their own.
    const bool whole = !folder->config.contains("text_config");
    const HfJson own = HfJson::parse((whole ? folder->config : folder->config["text_config"]).dump());
    const HfJson written = std::exchange(config, own);
    for (const auto& [key, value] : written.items()) {
      if (!config.contains(key) || !whole) config[key] = value;
    }
    config.erase("dtype");
    config.erase("quantization_config");
  } else {
    const auto& file = std::get<GgufFile>(model.source);
    for (const std::string_view name : {"bos", "eos", "pad"})
      config[fmt::format("{}_token_id", name)] = id_of(file, name);
  }
  config["torch_dtype"] = type;
  return config;
}

void write_side_files(const models::Model& model, const HfJson& config, const OutputFolder& folder, Written& written) {
  Companions companions(folder, written);
  companions.json("config.json", config);
  write_companions(model, config, companions, written);
}

}  // namespace pastkv::targets
