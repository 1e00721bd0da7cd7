// The kernel set for x86-64 processors with AVX-512 F, BW, DQ and VL.
#define PASTKV_KERNELS avx512
#define PASTKV_SIMD "engine/kernels/simd_avx512.h"

#include "engine/kernels/kernels_generic.h"

namespace pastkv::engine {

constinit const KernelSet kAvx512Kernels = avx512::kernel_set_named("avx512", avx512_available);

}  // namespace pastkv::engine
