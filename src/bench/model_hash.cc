#include "bench/model_hash.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "graph/text.h"

namespace pastkv::bench {
namespace {

constexpr std::size_t kStretch = 4096;
constexpr std::size_t kStretches = 16;

// FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/
class Fnv1a {
 public:
  void add(std::span<const std::byte> bytes) {
    for (const std::byte b : bytes) state_ = (state_ ^ static_cast<std::uint64_t>(b)) * 0x100000001B3ULL;
  }
  // Text with its length, so that neighbours cannot run into each other.
  void add(std::string_view text) {
    add(static_cast<std::uint64_t>(text.size()));
    add(std::as_bytes(std::span(text)));
  }
  void add(std::uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) state_ = (state_ ^ ((number >> shift) & 0xFFU)) * 0x100000001B3ULL;
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0xCBF29CE484222325ULL;
};

void add_sample(Fnv1a& hash, std::span<const std::byte> bytes) {
  if (bytes.size() <= kStretch * kStretches) {
    hash.add(bytes);
    return;
  }
  const std::size_t last = bytes.size() - kStretch;
  for (std::size_t i = 0; i < kStretches; ++i) {
    hash.add(
        bytes.subspan(last / (kStretches - 1) * i + (i + 1 == kStretches ? last % (kStretches - 1) : 0), kStretch));
  }
}

}  // namespace

std::string model_hash(const models::Model& model) {
  Fnv1a hash;
  hash.add(graph::to_text(model.graph));
  std::vector<const formats::TensorEntry*> tensors;
  for (const formats::TensorEntry& tensor : model.tensors().tensors()) tensors.push_back(&tensor);
  std::sort(tensors.begin(), tensors.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  for (const formats::TensorEntry* tensor : tensors) {
    hash.add(tensor->name);
    hash.add(tensor::name(tensor->dtype));
    hash.add(static_cast<std::uint64_t>(tensor->shape.size()));
    for (const std::int64_t extent : tensor->shape) hash.add(static_cast<std::uint64_t>(extent));
    add_sample(hash, tensor->bytes);
  }
  return fmt::format("sampled-fnv1a64:{:016x}", hash.value());
}

}  // namespace pastkv::bench
