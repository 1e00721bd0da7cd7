// The kernel sets that may be compiled in, each defined in its kernels_*.cc, and what they share.
#pragma once

#include "engine/kernels/kernel_set.h"

namespace pastkv::engine {

bool always_available();
bool avx2_available();  // AVX2, FMA, F16C, and an operating system that keeps their registers

void decode_any_row(tensor::DType type, const std::byte* row, std::int64_t n, float* out);

extern const KernelSet kPortableKernels;
extern const KernelSet kAvx2Kernels;

}  // namespace pastkv::engine
