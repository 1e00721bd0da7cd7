// Weights on their way into a file: rows are decoded and encoded by several threads, and come out in order. Rows that
// the file takes as they are stored are never decoded. Memory: some megabytes, whatever the size of a tensor; pages of
// the mapped source are dropped behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/thread_pool.h"
#include "models/weight_rows.h"
#include "tensor/dtype.h"

namespace pastkv::targets {

using ByteSink = std::function<void(std::span<const std::byte>)>;

class WeightStream {
 public:
  // `total`: bytes that will be written in all, for the progress, which may be empty. `file` is named in errors.
  WeightStream(std::string file, std::uint64_t total, ProgressSink progress);

  // Hands all bytes of the weight as elements of `type` to `sink`, front to back. Rows are a whole number of blocks.
  // Throws Error when numbers are beyond what f16 holds (the scales of block formats are f16 too): says how many.
  void write(const models::WeightRows& rows, tensor::DType type, const ByteSink& sink);
  // Bytes that are no weight's.
  void write(std::span<const std::byte> bytes, const ByteSink& sink);

 private:
  void copy(const models::WeightRows& rows, const ByteSink& sink);
  void encode(const models::WeightRows& rows, tensor::DType type, const ByteSink& sink);
  void give(std::span<const std::byte> bytes, const ByteSink& sink);

  std::string file_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;
  ProgressSink progress_;
  ThreadPool pool_;
  std::vector<std::byte> buffer_;
};

}  // namespace pastkv::targets
