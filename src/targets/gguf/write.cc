#include "targets/gguf/write.h"

#include <utility>
#include <vector>

#include "base/output.h"
#include "formats/gguf_writer.h"
#include "models/spelling.h"
#include "targets/gguf/metadata.h"
#include "targets/weight_stream.h"

namespace pastkv::targets {
namespace {

namespace fs = std::filesystem;
using formats::TensorSpec;

constexpr std::uint64_t kRoomBesideTensors = 1U << 20U;

std::uint64_t total_bytes(const std::vector<TensorSpec>& tensors) {
  std::uint64_t total = 0;
  for (const TensorSpec& tensor : tensors) total += tensor.bytes();
  return total;
}

}  // namespace

Written write_gguf(const models::Model& model, const fs::path& out, const GgufOptions& options,
                   const WriteContext& context) {
  GgufDescription description = describe_gguf(model, options.type);
  if (options.tokenizer && std::holds_alternative<formats::HfFolder>(model.source)) add_vocabulary(model, description);
  const std::vector<models::WeightRows> weights = models::spell(model, models::Spelling::gguf);
  const TensorPlace place{.layers = static_cast<std::int64_t>(model.config.layers.size()), .tied = model.config.tied};

  std::vector<TensorSpec> tensors;
  tensors.reserve(description.rope_tensors.size() + weights.size());
  for (const RopeTensor& rope : description.rope_tensors) {
    tensors.push_back(
        {.name = rope.name, .dtype = tensor::DType::f32, .shape = {static_cast<std::int64_t>(rope.numbers.size())}});
  }
  for (const models::WeightRows& rows : weights) {
    tensors.push_back({.name = rows.name, .dtype = tensor_type(options.type, rows, place), .shape = rows.shape});
  }
  const std::uint64_t total = total_bytes(tensors);
  require_space(out, total + description.metadata.encoded().size() + kRoomBesideTensors);

  formats::GgufWriter writer(out, context.replace, description.metadata, tensors, options.split_size);
  const ByteSink sink = [&writer](std::span<const std::byte> bytes) { writer.write(bytes); };
  WeightStream stream(out.string(), total, context.progress);
  for (const RopeTensor& rope : description.rope_tensors) stream.write(std::as_bytes(std::span(rope.numbers)), sink);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    stream.write(weights[i], tensors[description.rope_tensors.size() + i].dtype, sink);
  }
  Written written{.files = {}, .bytes = writer.size(), .notes = std::move(description.notes)};
  for (const fs::path& file : writer.commit()) written.files.push_back(file.filename().string());
  return written;
}

}  // namespace pastkv::targets
