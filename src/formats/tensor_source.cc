#include "formats/tensor_source.h"

#include <utility>

#include "base/error.h"
#include "formats/names.h"

namespace pastkv::formats {

std::int64_t TensorEntry::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}

void TensorSource::add(TensorEntry entry) {
  const auto [found, added] = index_.try_emplace(entry.name, tensors_.size());
  if (!added) {
    const TensorEntry& first = tensors_[found->second];
    const bool same_file = first.file == entry.file || first.file == nullptr;
    throw Error({.file = entry.file == nullptr ? std::string() : entry.file->path().string(),
                 .place = "tensor " + shown(entry.name),
                 .reason = same_file ? "duplicate name: the file holds two tensors of it"
                                     : "duplicate name: " + first.file->path().filename().string() + " holds it too",
                 .remedy = "the model was written wrongly: get another copy"});
  }
  tensors_.push_back(std::move(entry));
}

const TensorEntry* TensorSource::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

void TensorSource::set_unlisted(std::string_view name) {
  const auto found = index_.find(std::string(name));
  if (found != index_.end()) tensors_[found->second].unlisted = true;
}

std::uint64_t TensorSource::total_bytes() const {
  std::uint64_t total = 0;
  for (const TensorEntry& entry : tensors_) total += entry.bytes.size();
  return total;
}

}  // namespace pastkv::formats
