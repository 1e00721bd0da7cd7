// What the kernel tests share: every kernel set that runs here as a parameter, and random data.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "engine/kernels/kernel_set.h"
#include "tensor/codec.h"
#if defined(PASTKV_TEST_SIMDE)
#include "simde_sets.h"
#endif

namespace pastkv::engine {

inline std::vector<const KernelSet*> runnable_sets() {
  std::vector<const KernelSet*> result;
  for (const KernelSet* set : kernel_sets()) {
    if (set->available()) result.push_back(set);
  }
#if defined(PASTKV_TEST_SIMDE)
  // On processors that have AVX-512 the true sets run above; elsewhere their arithmetic is still tested.
  for (const KernelSet* set : {&kSimdeAvx512, &kSimdeAvx512Vnni}) {
    if (set->available()) result.push_back(set);
  }
#endif
  return result;
}

class KernelTest : public ::testing::TestWithParam<const KernelSet*> {
 protected:
  const KernelSet& set() const { return *GetParam(); }
};

inline std::string set_name(const ::testing::TestParamInfo<const KernelSet*>& info) {
  return std::string(info.param->name);
}

// Bytes aligned to 64, exactly as many as asked for, so that a sanitizer sees the first one beyond.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::size_t size)
      : data_(static_cast<std::byte*>(::operator new(size > 0 ? size : 1, std::align_val_t{64}))) {
    std::memset(data_, 0xFF, size);  // NaN, should anyone read what nobody wrote
  }
  ~AlignedBytes() { ::operator delete(data_, std::align_val_t{64}); }
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  std::byte* data() { return data_; }

 private:
  std::byte* data_;
};

inline std::vector<float> random_floats(std::size_t n, std::mt19937& random, float deviation = 1.0F) {
  std::normal_distribution<float> normal(0.0F, deviation);
  std::vector<float> result(n);
  for (float& value : result) value = normal(random);
  return result;
}

}  // namespace pastkv::engine
