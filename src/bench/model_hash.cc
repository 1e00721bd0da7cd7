#include "bench/model_hash.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "graph/text.h"

namespace pastkv::bench {
namespace {

class Hash {
 public:
  Hash() { XXH3_64bits_reset(&state_); }

  void add(std::span<const std::byte> bytes) { XXH3_64bits_update(&state_, bytes.data(), bytes.size()); }
  // Text with its length, so that neighbours cannot run into each other.
  void add(std::string_view text) {
    add(static_cast<std::uint64_t>(text.size()));
    add(std::as_bytes(std::span(text)));
  }
  void add(std::uint64_t number) { add(std::as_bytes(std::span(&number, 1))); }
  std::uint64_t value() const { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_;
};

}  // namespace

std::string model_hash(const models::Model& model) {
  Hash hash;
  hash.add(graph::to_text(model.graph));
  std::vector<const formats::TensorEntry*> tensors;
  for (const formats::TensorEntry& tensor : model.tensors().tensors()) tensors.push_back(&tensor);
  std::sort(tensors.begin(), tensors.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  for (const formats::TensorEntry* tensor : tensors) {
    hash.add(tensor->name);
    hash.add(tensor::name(tensor->dtype));
    hash.add(static_cast<std::uint64_t>(tensor->shape.size()));
    for (const std::int64_t extent : tensor->shape) hash.add(static_cast<std::uint64_t>(extent));
    hash.add(tensor->bytes);
    tensor->file->drop(tensor->bytes);  // a look at all of a large model must not leave it in memory
  }
  return fmt::format("xxh3:{:016x}", hash.value());
}

}  // namespace pastkv::bench
