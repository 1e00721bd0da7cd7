// Writes a model as a Core ML package (.mlpackage, an ML program of specification 9) with its cache as Core ML states.
//
// It is what swift-transformers loads as it stands: inputs inputIds [1, query] and causalMask
// [1, 1, rows, end], states keyCache and valueCache [layers, 1, heads, context, head_dim], output logits
// [1, query, vocab]. Positions, causality and windows are made in the program from the width of the mask less the query
// length; the caller's mask is added on top of them, and slots that nobody has written are not seen. So a caller may
// pass the true mask, or zeros of height 1.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "models/model.h"
#include "targets/target.h"

namespace pastkv::targets {

enum class CoremlPrecision : std::uint8_t {
  fp16,   // everything, made so that nothing overflows
  fp32,   // everything but the states, which Core ML keeps in fp16
  mixed,  // matrix products fp16; residual stream, norms and softmax fp32
};

struct CoremlOptions {
  CoremlPrecision precision = CoremlPrecision::fp16;
  // Capacity of the states, in tokens. 0: the model's own, at most 2048.
  std::int64_t context = 0;
  // What users look a tokenizer up by: a repository on the Hugging Face hub, "owner/name". Empty: the model's name.
  std::string repository;
};

// `out`: the folder to be made. It holds `<name of the folder>.mlpackage`, tokenizer.json, tokenizer_config.json and
// config.json as far as the model has them. When `out` ends in ".mlpackage" the folder is the package itself, and holds
// nothing else. Throws Error: options that do not fit the model, a full disk, `out` that exists.
Written write_coreml(const models::Model& model, const std::filesystem::path& out, const CoremlOptions& options,
                     const WriteContext& context);

}  // namespace pastkv::targets
