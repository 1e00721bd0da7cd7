// The metadata of a GGUF: what the model is, in the keys that llama.cpp reads, and its vocabulary.
// Source of the keys: docs/gguf.md of ggml, and src/llama-arch.cpp of llama.cpp.
#pragma once

#include <string>
#include <vector>

#include "formats/gguf_writer.h"
#include "models/model.h"
#include "targets/gguf/types.h"

namespace pastkv::targets {

// Numbers that a GGUF keeps as a tensor: divisors of rope frequencies.
struct RopeTensor {
  std::string name;
  std::vector<float> numbers;
};

struct GgufDescription {
  formats::GgufMetadata metadata;
  std::vector<RopeTensor> rope_tensors;
  std::vector<std::string> notes;  // what the keys cannot say
};

// Of a model from a Hugging Face folder: keys from its configuration. Of a model from GGUF: its own keys, all of them.
// Throws Error naming what of the configuration has no key and changes every result.
GgufDescription describe_gguf(const models::Model& model, GgufType type);

// Adds tokenizer.ggml.* from tokenizer.json and its companions, with as many tokens as the embedding has rows.
// Throws Error when readers of GGUF have no such tokenizer.
void add_vocabulary(const models::Model& model, GgufDescription& out);

}  // namespace pastkv::targets
