// Tokenizers of a few tokens, made from JSON or from GGUF metadata in memory.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace pastkv::text {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

// A Hugging Face folder that holds a tokenizer only.
class TinyFolder {
 public:
  explicit TinyFolder(const json& tokenizer, json config = nullptr) {
    std::string name = testing::TempDir() + "pastkv_text_XXXXXX";
    folder_.path = mkdtemp(name.data());
    folder_.tokenizer = folder_.path / "tokenizer.json";
    folder_.tokenizer_config = std::move(config);
    folder_.config = json::object();
    std::ofstream(*folder_.tokenizer) << tokenizer.dump();
  }
  ~TinyFolder() { std::filesystem::remove_all(folder_.path); }
  TinyFolder(const TinyFolder&) = delete;
  TinyFolder& operator=(const TinyFolder&) = delete;

  formats::HfFolder& folder() { return folder_; }
  Tokenizer tokenizer() const { return Tokenizer::from_hf(folder_); }

 private:
  formats::HfFolder folder_;
};

inline Tokenizer tokenizer_of(const json& tokenizer) {
  return TinyFolder(tokenizer).tokenizer();
}

inline json added_token(int id, const std::string& content, bool special = true) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

// tokenizer.json around a model; `parts` replaces or adds top-level keys.
inline json tokenizer_json(json model, const json& parts = json::object()) {
  json whole = {{"version", "1.0"},          {"truncation", nullptr},
                {"padding", nullptr},        {"added_tokens", json::array()},
                {"normalizer", nullptr},     {"pre_tokenizer", nullptr},
                {"post_processor", nullptr}, {"decoder", nullptr},
                {"model", std::move(model)}};
  whole.update(parts);
  return whole;
}

// A BPE model; tokens get their index as id, merges are "left right".
inline json bpe(const std::vector<std::string>& tokens, const std::vector<std::string>& merges = {},
                const json& options = json::object()) {
  json vocab = json::object();
  for (std::size_t id = 0; id < tokens.size(); ++id) vocab[tokens[id]] = id;
  json model = {{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", nullptr},
                {"continuing_subword_prefix", nullptr},
                {"end_of_word_suffix", nullptr},
                {"fuse_unk", false},
                {"byte_fallback", false},
                {"ignore_merges", false},
                {"vocab", vocab},
                {"merges", merges}};
  model.update(options);
  return model;
}

template <typename Work>
std::string error_of(Work work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return {};
}

}  // namespace pastkv::text
