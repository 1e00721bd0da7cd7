#include "targets/hf/write.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "base/output.h"
#include "formats/safetensors_writer.h"
#include "models/architecture.h"
#include "models/spelling.h"
#include "targets/weight_stream.h"
#include "text/chat_template.h"
#include "text/tokenizer_json.h"

namespace pastkv::targets {
namespace {

namespace fs = std::filesystem;
using formats::GgufFile;
using formats::HfFolder;
using formats::TensorSpec;
using models::HfJson;
using tensor::DType;

// Files of a folder that go over as they are, where they exist.
constexpr std::string_view kCompanions[] = {"generation_config.json", "tokenizer.json",      "tokenizer_config.json",
                                            "tokenizer.model",        "vocab.json",          "merges.txt",
                                            "added_tokens.json",      "chat_template.jinja", "special_tokens_map.json"};

bool is_plain(DType type) {
  return type == DType::f32 || type == DType::f16 || type == DType::bf16;
}

DType type_of(const models::WeightRows& rows, const HfOptions& options) {
  if (options.type) return *options.type;
  for (const formats::TensorEntry* part : rows.parts) {
    if (!is_plain(part->dtype) || part->dtype != rows.stored_type()) return DType::f16;
  }
  return rows.stored_type();
}

// The type that most numbers have, as config.json calls it.
std::string_view torch_type(const std::vector<TensorSpec>& tensors) {
  std::map<DType, std::uint64_t> bytes;
  for (const TensorSpec& tensor : tensors) bytes[tensor.dtype] += tensor.bytes();
  const auto most = std::ranges::max_element(bytes, {}, [](const auto& counted) { return counted.second; });
  if (most == bytes.end() || most->first == DType::f32) return "float32";
  return most->first == DType::f16 ? "float16" : "bfloat16";
}

// A special token's id, or null: a class has a default where the key is absent, which may be outside the vocabulary.
HfJson id_of(const GgufFile& file, std::string_view name) {
  const auto id = file.find_int(fmt::format("tokenizer.ggml.{}_token_id", name == "pad" ? "padding" : name));
  return id ? HfJson(*id) : HfJson(nullptr);
}

HfJson config_of(const models::Model& model, std::string_view type) {
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

Written write_hf(const models::Model& model, const fs::path& out, const HfOptions& options,
                 const WriteContext& context) {
  const std::vector<models::WeightRows> weights = models::spell(model, models::Spelling::hf);
  std::vector<TensorSpec> tensors;
  std::uint64_t total = 0;
  for (const models::WeightRows& rows : weights) {
    tensors.push_back({.name = rows.name, .dtype = type_of(rows, options), .shape = rows.shape});
    total += tensors.back().bytes();
  }
  Written written;
  const HfJson config = config_of(model, torch_type(tensors));
  OutputFolder folder(out, context.replace);
  require_space(out, total);
  Companions companions(folder, written);
  companions.json("config.json", config);
  write_companions(model, config, companions, written);

  formats::SafetensorsWriter writer(folder, tensors, options.shard_size);
  const ByteSink sink = [&writer](std::span<const std::byte> bytes) { writer.write(bytes); };
  WeightStream stream(out.string(), total, context.progress);
  for (std::size_t i = 0; i < weights.size(); ++i) stream.write(weights[i], tensors[i].dtype, sink);
  for (std::string& name : writer.finish()) {
    written.bytes += fs::file_size(folder.path() / name);
    written.files.push_back(std::move(name));
  }
  folder.commit();
  return written;
}

}  // namespace pastkv::targets
