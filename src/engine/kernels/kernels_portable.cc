// The kernel set for every processor.
#define PASTKV_KERNELS portable
#define PASTKV_SIMD "engine/kernels/simd_portable.h"

#include "engine/kernels/kernels_generic.h"

namespace pastkv::engine {

constinit const KernelSet kPortableKernels = portable::kernel_set_named("portable", always_available);

}  // namespace pastkv::engine
