// The kernel sets that may be compiled in, each defined in its kernels_*.cc, and what they share.
#pragma once

#include "engine/kernels/kernel_set.h"

namespace pastkv::engine {

bool always_available();
// The processor has it and the operating system keeps its registers.
bool avx2_available();         // AVX2, FMA, F16C
bool avx512_available();       // and AVX-512 F, BW, DQ, VL
bool avx512_vnni_available();  // and VNNI

void decode_any_row(tensor::DType type, const std::byte* row, std::int64_t n, float* out);

extern const KernelSet kPortableKernels;
extern const KernelSet kAvx2Kernels;
extern const KernelSet kAvx512Kernels;
extern const KernelSet kAvx512VnniKernels;

}  // namespace pastkv::engine
