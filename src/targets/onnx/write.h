// Writes a model as an ONNX decoder with its cache: one graph for prefill and generation, weights in one external file.
// The folder serves optimum's ORTModelForCausalLM, onnxruntime-genai and transformers.js as it stands:
//
//   config.json  generation_config.json  tokenizer.json ...  genai_config.json  onnx/model.onnx  onnx/model.onnx_data
//
// Inputs and outputs have the names, the order and the symbolic sizes of optimum's "text-generation-with-past":
// input_ids, attention_mask, position_ids (where that contract has it), past_key_values.{i}.key and .value; logits,
// present.{i}.key and .value. A past of length zero makes a prefill. Batches are padded on the left; mask and positions
// are honoured row by row.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "models/model.h"
#include "targets/target.h"

namespace pastkv::targets {

enum class OnnxOps : std::uint8_t {
  standard,  // operations of the standard alone, opset 18 (21 for int8 and int4): any runtime
  contrib,   // also those of ONNX Runtime's domain com.microsoft, which are faster there
};

enum class OnnxPrecision : std::uint8_t {
  fp32,
  fp16,  // weights, linears and caches; norms, softmax, angles and the residual stream stay fp32
  int8,  // matrices in blocks of 32 weights with one scale; GGUF's q8_0 goes over without loss
  int4,  // the same with 4 bits; GGUF's q4_0 goes over without loss
};

struct OnnxOptions {
  OnnxOps ops = OnnxOps::standard;
  OnnxPrecision precision = OnnxPrecision::fp32;
  // num_logits_to_keep (0: the logits of every position) is an input with a default value, which clients that do not
  // know it need not give. transformers.js gives it, 1, only when it is an input without one: true makes it that, and
  // then optimum and onnxruntime-genai can no longer run the file.
  bool require_logits_to_keep = false;
};

// "standard", "contrib"; nothing for a name that is none.
std::optional<OnnxOps> onnx_ops_from_name(std::string_view name);
// "fp32", "fp16", "int8", "int4"; nothing for a name that is none.
std::optional<OnnxPrecision> onnx_precision_from_name(std::string_view name);

// `out`: the folder. Throws Error when it exists, is not empty and may not be replaced, when a number is too large for
// f16, and when the disk is full.
Written write_onnx(const models::Model& model, const std::filesystem::path& out, const OnnxOptions& options,
                   const WriteContext& context);

}  // namespace pastkv::targets
