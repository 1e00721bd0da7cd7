#include "targets/hf/write.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/output.h"
#include "formats/safetensors_writer.h"
#include "models/spelling.h"
#include "targets/hf/side_files.h"
#include "targets/weight_stream.h"

namespace pastkv::targets {
namespace {

namespace fs = std::filesystem;
using formats::TensorSpec;
using models::HfJson;
using tensor::DType;

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
  const HfJson config = hf_config(model, torch_type(tensors));
  OutputFolder folder(out, context.replace);
  require_space(out, total);
  write_side_files(model, config, folder, written);

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
