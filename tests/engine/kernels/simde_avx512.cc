// The AVX-512 kernel set compiled against SIMDe, which computes AVX-512 on lesser processors.
#define PASTKV_KERNELS avx512_simde
#define PASTKV_SIMD "engine/kernels/simd_avx512.h"
#define PASTKV_INTRINSICS "simde_intrinsics.h"

#include "engine/kernels/kernels_generic.h"
#include "simde_sets.h"

namespace pastkv::engine {

constinit const KernelSet kSimdeAvx512 = avx512_simde::kernel_set_named("avx512_simde", avx2_available);

}  // namespace pastkv::engine
