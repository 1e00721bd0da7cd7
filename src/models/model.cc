#include "models/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "models/architecture.h"
#include "models/binding.h"
#include "tensor/codec.h"

namespace pastkv::models {
namespace {

namespace fs = std::filesystem;
using formats::TensorEntry;

constexpr std::string_view kOutput = "output.weight";
constexpr std::string_view kEmbedding = "embedding.weight";

void sort_unique(std::vector<std::int32_t>& ids) {
  std::ranges::sort(ids);
  const auto rest = std::ranges::unique(ids);
  ids.erase(rest.begin(), rest.end());
}

// Equal as far as a look at up to 256 places in each can tell; whole when they are small. Two matrices that were
// trained apart differ everywhere, and opening a model must not read all of them.
bool same_bytes(const TensorEntry& a, const TensorEntry& b) {
  constexpr std::size_t kBlock = 4096;
  constexpr std::size_t kPlaces = 256;
  if (a.dtype != b.dtype || a.shape != b.shape || a.bytes.size() != b.bytes.size()) return false;
  const std::size_t size = a.bytes.size();
  if (size <= kBlock * kPlaces) return std::memcmp(a.bytes.data(), b.bytes.data(), size) == 0;
  for (std::size_t i = 0; i < kPlaces; ++i) {
    const std::size_t at = (size - kBlock) / (kPlaces - 1) * i;
    if (std::memcmp(a.bytes.data() + at, b.bytes.data() + at, kBlock) != 0) return false;
  }
  return true;
}

// An output matrix beside a tied embedding: the tie wins, as in transformers. Gives the matrix, to be left unused.
std::vector<const TensorEntry*> tied_output(const Architecture& architecture, Spelling spelling, Model& model) {
  if (!model.config.tied) return {};
  const auto tensor = [&](std::string_view graph_name) {
    return find_tensor(architecture, model.tensors(), file_name(architecture, spelling, graph_name));
  };
  const TensorEntry* output = tensor(kOutput);
  const TensorEntry* embedding = tensor(kEmbedding);
  if (output == nullptr || embedding == nullptr) return {};
  if (!same_bytes(*output, *embedding)) {
    model.warnings.push_back(fmt::format("{} differs from {}, but the configuration ties the two: it is not used",
                                         output->name, embedding->name));
  }
  return {output};
}

void finish(const Architecture& architecture, Spelling spelling, const std::string& file, Model& model) {
  check_config(model.config, file);
  const std::size_t layers = model.config.layers.size();
  const std::size_t tensors = model.tensors().tensors().size();
  if (layers > tensors) {  // before a graph of that size is made
    throw Error({.file = file,
                 .place = {},
                 .reason = fmt::format("the configuration names {} layers, the files hold {} tensors", layers, tensors),
                 .remedy = {}});
  }
  const auto also_used = tied_output(architecture, spelling, model);
  model.graph = architecture.build(model.config);
  model.weights = bind_weights(model.graph, architecture, spelling, model.tensors(), also_used, file);
  std::unordered_set<const TensorEntry*> counted;
  for (const TensorEntry* entry : model.weights) {
    if (entry != nullptr && counted.insert(entry).second) {
      model.parameters += static_cast<std::uint64_t>(entry->elements());
    }
  }
  sort_unique(model.eos_ids);
}

void add_ids(const HfConfig& config, Model& model) {
  for (const std::int32_t id : config.ids("eos_token_id")) model.eos_ids.push_back(id);
}

// Weights that another tool packed in its own way look like missing and unused tensors; say what they are instead.
void refuse_packed(const HfConfig& config) {
  const auto packed = config.find_object("quantization_config");
  if (!packed) return;
  config.fail("quantization_config",
              fmt::format("says the weights are packed by {}, which is not read",
                          packed->find_string("quant_method").value_or("a method it does not name")),
              "use the model in its original types, or its GGUF");
}

Model open_hf(const fs::path& path) {
  Model model;
  model.source = formats::read_hf_folder(path);
  const auto& folder = std::get<formats::HfFolder>(model.source);
  const HfConfig config(folder);
  const auto type = config.find_string("model_type");
  if (!type) config.fail("model_type", "is missing", fmt::format("known are {}", known_hf_types()));
  const Architecture* architecture = find_by_hf(*type);
  if (architecture == nullptr) {
    config.fail("model_type", fmt::format("is \"{}\", which is not supported", *type),
                fmt::format("known are {}", known_hf_types()));
  }
  refuse_packed(config);
  fs::path named = fs::weakly_canonical(path);
  model.name = (named.has_filename() ? named : named.parent_path()).filename().string();
  model.warnings = folder.warnings;
  model.config.architecture = architecture->name;
  architecture->read_hf(config, model.config);
  add_ids(config, model);
  if (const auto text = config.find_object("text_config")) add_ids(*text, model);
  if (folder.generation_config.is_object()) {
    add_ids(HfConfig(folder.generation_config, (folder.path / "generation_config.json").string(), folder.tensors),
            model);
  }
  const std::string output = file_name(*architecture, Spelling::hf, kOutput);
  if (!model.config.tied && find_tensor(*architecture, folder.tensors, output) == nullptr) {
    throw Error({.file = folder.path.string(),
                 .place = fmt::format("tensor {}", output),
                 .reason = "is missing, and config.json does not tie the output to the embedding",
                 .remedy = "set tie_word_embeddings to true if the model is tied, or fetch the missing weights"});
  }
  finish(*architecture, Spelling::hf, folder.path.string(), model);
  return model;
}

// "model-00001-of-00003" -> "model"
std::string without_part(std::string stem) {
  constexpr std::string_view kShape = "-00001-of-00003";
  if (stem.size() <= kShape.size()) return stem;
  const std::string_view tail = std::string_view(stem).substr(stem.size() - kShape.size());
  for (std::size_t i = 0; i < kShape.size(); ++i) {
    const bool digit = kShape[i] >= '0' && kShape[i] <= '9';
    if (digit ? tail[i] < '0' || tail[i] > '9' : tail[i] != kShape[i]) return stem;
  }
  stem.resize(stem.size() - kShape.size());
  return stem;
}

void read_gguf_vocabulary(const formats::GgufFile& file, Model& model) {
  if (const auto* tokens = file.find_strings("tokenizer.ggml.tokens")) {
    if (std::cmp_greater(tokens->size(), model.config.vocab)) {
      throw Error({.file = file.path.string(),
                   .place = "tensor token_embd.weight",
                   .reason = fmt::format("has {} rows for the {} tokens of tokenizer.ggml.tokens", model.config.vocab,
                                         tokens->size()),
                   .remedy = "the tokenizer does not belong to these weights"});
    }
  }
  for (const std::string_view key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    const auto id = file.find_int(key);
    if (!id) continue;
    if (*id < 0 || *id >= kMaxVocab) {
      throw Error({.file = file.path.string(),
                   .place = fmt::format("key {}", key),
                   .reason = fmt::format("is {}, which is no token id", *id),
                   .remedy = {}});
    }
    model.eos_ids.push_back(static_cast<std::int32_t>(*id));
  }
}

Model open_gguf(const fs::path& path) {
  Model model;
  model.source = formats::read_gguf(path);
  const auto& file = std::get<formats::GgufFile>(model.source);
  const std::string name = file.require_string("general.architecture");
  const Architecture* architecture = find_by_gguf(name);
  if (architecture == nullptr) {
    throw Error({.file = file.path.string(),
                 .place = "key general.architecture",
                 .reason = fmt::format("is \"{}\", which is not supported", name.substr(0, 64)),
                 .remedy = fmt::format("known are {}", known_gguf_names())});
  }
  model.name = without_part(file.path.stem().string());
  model.config.architecture = architecture->name;
  architecture->read_gguf(GgufConfig(file, name), model.config);
  read_gguf_vocabulary(file, model);
  finish(*architecture, Spelling::gguf, file.path.string(), model);
  return model;
}

}  // namespace

const formats::TensorSource& Model::tensors() const {
  return std::visit([](const auto& opened) -> const formats::TensorSource& { return opened.tensors; }, source);
}

std::uint64_t Model::file_bytes() const {
  return std::visit([](const auto& opened) { return opened.file_bytes; }, source);
}

Model open_model(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::none) {
    throw Error(
        {.file = path.string(), .place = {}, .reason = error.message(), .remedy = "check the path's rights and links"});
  }
  if (!fs::exists(status)) {
    throw Error({.file = path.string(),
                 .place = {},
                 .reason = "does not exist",
                 .remedy = "give a Hugging Face folder or a .gguf file"});
  }
  return fs::is_directory(status) ? open_hf(path) : open_gguf(path);
}

graph::WeightReader weight_reader(const Model& model) {
  std::map<std::string, const TensorEntry*, std::less<>> by_name;
  for (std::size_t i = 0; i < model.weights.size(); ++i) {
    if (model.weights[i] != nullptr) by_name.emplace(model.graph.values[i].name, model.weights[i]);
  }
  return [by_name = std::move(by_name)](const graph::Value& weight) {
    const TensorEntry& entry = *by_name.at(weight.name);
    std::vector<float> numbers(static_cast<std::size_t>(entry.elements()));
    const auto rows = static_cast<std::size_t>(entry.shape.size() < 2 ? 1 : entry.shape.front());
    const std::size_t width = numbers.size() / rows;
    const std::size_t row_bytes = entry.bytes.size() / rows;
    for (std::size_t row = 0; row < rows; ++row) {
      tensor::decode_row(entry.dtype, entry.bytes.subspan(row * row_bytes, row_bytes),
                         std::span(numbers).subspan(row * width, width));
    }
    return numbers;
  };
}

}  // namespace pastkv::models
