// A model of any form that the program reads, ready to be asked for logits. What it is is found out by looking at its
// path. Hugging Face folders and GGUF files run in the engine; imported ones (ONNX, Core ML) in the reference
// interpreter.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/executor.h"
#include "models/model.h"
#include "targets/imported.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace pastkv::bench {

enum class ModelForm : std::uint8_t { hf, gguf, onnx, coreml };
std::string_view name(ModelForm form);

// A folder with weights of its own is a Hugging Face folder, whatever else lies in it. What is none of the others, or
// is not there, is taken for a .gguf file; opening it says what is wrong.
ModelForm form_of(const std::filesystem::path& path);
bool is_imported(ModelForm form);

struct OpenOptions {
  int threads = 0;           // of the engine; 0: physical cores allowed to the process
  bool interpret = false;    // run models of the engine in the reference interpreter too
  bool hold_weights = true;  // false: an interpreter reads them anew for each call, one in memory at a time
};

class OpenedModel {
 public:
  // Throws Error as opening a model, compiling it and reading its tokenizer do.
  OpenedModel(const std::filesystem::path& path, const OpenOptions& options);

  std::filesystem::path path;
  ModelForm form = ModelForm::hf;
  std::string name;
  std::int64_t vocab = 0;
  std::int64_t max_positions = 0;  // that it was trained for, or was made to hold; 0: unknown
  std::vector<std::int32_t> eos_ids;
  std::optional<text::Tokenizer> tokenizer;
  std::vector<std::string> warnings;
  std::vector<targets::StoredWeights> stored;  // the largest first; may be empty
  int threads = 1;
  double load_ms = 0;

  // Bits of a number in the coarsest weights that matter (a hundredth of all bytes); 0: unknown.
  int weight_bits() const;
  // Nothing when the model has none. Throws Error when the one it has is damaged.
  std::optional<text::ChatTemplate> chat_template() const;
  // `options.context` 0: max_positions. Must not outlive this. The interpreter keeps its states in f32.
  std::unique_ptr<engine::Session> session(engine::SessionOptions options) const;

  const models::Model* model() const { return native_ ? &native_->model : nullptr; }
  const targets::ImportedModel* imported() const { return imported_.get(); }

 private:
  struct Native {
    models::Model model;
    std::unique_ptr<engine::Engine> engine;  // null: interpreted
  };
  void open_native(const OpenOptions& options);
  void open_imported();

  bool hold_weights_ = true;
  std::unique_ptr<Native> native_;
  std::unique_ptr<targets::ImportedModel> imported_;
};

// Opens a file of a target; `form` is onnx or coreml.
targets::ImportedModel import_model(const std::filesystem::path& path, ModelForm form);

// The types of the weights that a model uses, the largest first.
std::vector<targets::StoredWeights> stored_weights(const models::Model& model);

}  // namespace pastkv::bench
