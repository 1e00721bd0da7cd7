#include "bench/opened_model.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <system_error>

#include "engine/interpreted_session.h"
#include "engine/model_text.h"
#include "formats/hf_folder.h"
#include "targets/coreml/import.h"
#include "targets/onnx/import.h"

namespace pastkv::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPackage = ".mlpackage";

bool holds(const fs::path& folder, std::string_view ending) {
  std::error_code ignored;
  return std::ranges::any_of(fs::directory_iterator(folder, ignored), [&](const fs::directory_entry& entry) {
    return entry.path().filename().string().ends_with(ending);
  });
}

fs::path without_slash(const fs::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace

std::string_view name(ModelForm form) {
  switch (form) {
    case ModelForm::hf:
      return "hf";
    case ModelForm::gguf:
      return "gguf";
    case ModelForm::onnx:
      return "onnx";
    case ModelForm::coreml:
      return "coreml";
  }
  return "hf";
}

bool is_imported(ModelForm form) {
  return form == ModelForm::onnx || form == ModelForm::coreml;
}

ModelForm form_of(const fs::path& given) {
  const fs::path path = without_slash(given);
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path.extension() == ".onnx" ? ModelForm::onnx : ModelForm::gguf;
  if (path.extension() == kPackage) return ModelForm::coreml;
  if (holds(path, ".safetensors")) return ModelForm::hf;
  if (holds(path, kPackage)) return ModelForm::coreml;
  if (holds(path, ".onnx") || holds(path / "onnx", ".onnx")) return ModelForm::onnx;
  return ModelForm::hf;
}

targets::ImportedModel import_model(const fs::path& path, ModelForm form) {
  return form == ModelForm::onnx ? targets::import_onnx(path) : targets::import_coreml(path);
}

std::vector<targets::StoredWeights> stored_weights(const models::Model& model) {
  std::map<tensor::DType, targets::StoredWeights> types;
  std::set<const formats::TensorEntry*> counted;
  for (const formats::TensorEntry* entry : model.weights) {
    if (entry == nullptr || !counted.insert(entry).second) continue;
    targets::StoredWeights& type = types[entry->dtype];
    type.type = tensor::name(entry->dtype);
    if (entry->elements() > 0) type.bits = static_cast<int>(entry->bytes.size() * 8 / entry->elements());
    ++type.tensors;
    type.bytes += entry->bytes.size();
  }
  std::vector<targets::StoredWeights> out;
  for (auto& [dtype, type] : types) out.push_back(std::move(type));
  std::ranges::stable_sort(out, [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return out;
}

OpenedModel::OpenedModel(const fs::path& given, const OpenOptions& options)
    : path(given), form(form_of(given)), hold_weights_(options.hold_weights) {
  const auto begin = std::chrono::steady_clock::now();
  if (is_imported(form)) {
    open_imported();
  } else {
    open_native(options);
  }
  if (tokenizer) {
    const std::vector<std::int32_t> more = tokenizer->eos_ids();
    eos_ids.insert(eos_ids.end(), more.begin(), more.end());
  }
  std::ranges::sort(eos_ids);
  const auto rest = std::ranges::unique(eos_ids);
  eos_ids.erase(rest.begin(), rest.end());
  load_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

void OpenedModel::open_native(const OpenOptions& options) {
  native_ = std::make_unique<Native>();
  models::Model& model = native_->model;
  model = models::open_model(path);
  name = model.name;
  vocab = model.config.vocab;
  max_positions = model.config.max_positions;
  eos_ids = model.eos_ids;
  warnings = model.warnings;
  stored = stored_weights(model);
  tokenizer = engine::tokenizer_of(model);
  if (options.interpret) return;
  native_->engine = std::make_unique<engine::Engine>(model, engine::EngineOptions{.threads = options.threads});
  threads = native_->engine->threads();
}

void OpenedModel::open_imported() {
  imported_ = std::make_unique<targets::ImportedModel>(import_model(path, form));
  name = imported_->name;
  vocab = imported_->vocab;
  max_positions = imported_->max_positions;
  eos_ids = imported_->eos_ids;
  stored = imported_->stored;
  if (imported_->tokenizer_folder.empty()) return;
  tokenizer = text::Tokenizer::from_hf(formats::read_hf_texts(imported_->tokenizer_folder));
}

int OpenedModel::weight_bits() const {
  std::uint64_t total = 0;
  for (const targets::StoredWeights& type : stored) total += type.bytes;
  int least = 0;
  for (const targets::StoredWeights& type : stored) {
    if (type.bytes >= total / 100 && (least == 0 || type.bits < least)) least = type.bits;
  }
  return least;
}

std::optional<text::ChatTemplate> OpenedModel::chat_template() const {
  if (native_) return engine::chat_template_of(native_->model);
  if (imported_->tokenizer_folder.empty()) return std::nullopt;
  return text::chat_template(formats::read_hf_texts(imported_->tokenizer_folder));
}

std::unique_ptr<engine::Session> OpenedModel::session(engine::SessionOptions options) const {
  if (native_ && native_->engine) return std::make_unique<engine::EngineSession>(*native_->engine, options);
  const engine::InterpretedOptions interpreted = {
      .context = options.context > 0 ? options.context : max_positions, .vocab = vocab, .hold_weights = hold_weights_};
  if (native_) {
    return std::make_unique<engine::InterpretedSession>(native_->model.graph, models::weight_reader(native_->model),
                                                        interpreted);
  }
  return std::make_unique<engine::InterpretedSession>(imported_->graph, imported_->weights, interpreted);
}

}  // namespace pastkv::bench
