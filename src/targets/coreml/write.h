// Writes a model as a Core ML package (.mlpackage, an ML program of specification 9) with its cache as Core ML states.
//
// The default layout is what swift-transformers loads as it stands: inputs inputIds [1, query] and causalMask
// [1, 1, rows, end], states keyCache and valueCache [layers, 1, heads, context, head_dim], output logits
// [1, query, vocab]. Positions, causality and windows are made in the program from the width of the mask less the query
// length; the caller's mask is added on top of them, and slots that nobody has written are not seen. So a caller may
// pass the true mask, or zeros of height 1.
//
// The layout `ane` is for the Neural Engine: 1x1 convolutions over [1, channels, 1, positions], every shape fixed, one
// function for each query length in a package, all of which share their weights.
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

enum class CoremlLayout : std::uint8_t { transformers, ane };

struct CoremlOptions {
  CoremlPrecision precision = CoremlPrecision::fp16;
  CoremlLayout layout = CoremlLayout::transformers;
  // Capacity of the states, in tokens. 0: the model's own, at most 2048 (transformers) or 512 (ane).
  std::int64_t context = 0;
  // What users look a tokenizer up by: a repository on the Hugging Face hub, "owner/name". Empty: the model's name.
  std::string repository;

  // --- layout ane only ---
  bool prefill = true;              // functions to write: "prefill", of prefill_batch tokens,
  bool infer = true;                // and "infer", of one
  std::int64_t prefill_batch = 64;  // query length of the function "prefill"
  std::int64_t chunks = 1;          // 1: one package; more: the embedding, that many groups of blocks, and the head
  std::int64_t head_parts = 0;      // convolutions that the head is split into; 0: as few as the Neural Engine takes
};

// `out`: the folder to be made. It holds `<name of the folder>.mlpackage` (several for chunks), tokenizer.json,
// tokenizer_config.json and config.json as far as the model has them; for the layout ane also manifest.json, which says
// how the parts connect. When `out` ends in ".mlpackage" the folder is the package itself, for one package only, and
// holds nothing else. Throws Error: options that do not fit the model, a full disk, `out` that exists.
Written write_coreml(const models::Model& model, const std::filesystem::path& out, const CoremlOptions& options,
                     const WriteContext& context);

}  // namespace pastkv::targets
