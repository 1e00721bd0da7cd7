// The kernel set for x86-64 processors with AVX-512 and VNNI.
#define PASTKV_KERNELS avx512_vnni
#define PASTKV_SIMD "engine/kernels/simd_avx512.h"
#define PASTKV_VNNI

#include "engine/kernels/kernels_generic.h"

namespace pastkv::engine {

constinit const KernelSet kAvx512VnniKernels = avx512_vnni::kernel_set_named("avx512_vnni", avx512_vnni_available);

}  // namespace pastkv::engine
