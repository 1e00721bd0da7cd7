// Kernel sets for wider instructions than the processor at hand may have, computed by SIMDe.
#pragma once

#include "engine/kernels/registry.h"

namespace pastkv::engine {

extern const KernelSet kSimdeAvx512;
extern const KernelSet kSimdeAvx512Vnni;

}  // namespace pastkv::engine
