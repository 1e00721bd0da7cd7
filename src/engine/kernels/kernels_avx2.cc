// The kernel set for x86-64 processors with AVX2, FMA and F16C.
#define PASTKV_KERNELS avx2
#define PASTKV_SIMD "engine/kernels/simd_avx2.h"

#include "engine/kernels/kernels_generic.h"

namespace pastkv::engine {

constinit const KernelSet kAvx2Kernels = avx2::kernel_set_named("avx2", avx2_available);

}  // namespace pastkv::engine
