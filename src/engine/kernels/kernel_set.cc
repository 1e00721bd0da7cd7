#include "engine/kernels/kernel_set.h"

#include <array>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "engine/kernels/registry.h"
#include "tensor/codec.h"

namespace pastkv::engine {
namespace {

constexpr std::array kSets = {
#if defined(__x86_64__)
    &kAvx512VnniKernels,
    &kAvx512Kernels,
    &kAvx2Kernels,
#endif
    &kPortableKernels,
};

std::string available_names() {
  std::string names;
  for (const KernelSet* set : kSets) {
    if (!set->available()) continue;
    if (!names.empty()) names += ", ";
    names += set->name;
  }
  return names;
}

const KernelSet& choose() {
  const char* wanted = std::getenv("PASTKV_KERNELS");
  if (wanted != nullptr && *wanted != '\0') {
    const KernelSet* set = find_kernel_set(wanted);
    if (set != nullptr && set->available()) return *set;
    throw Error({.place = "PASTKV_KERNELS",
                 .reason = std::string("the kernel set '") + wanted + "' cannot run here",
                 .remedy = "set it to one of: " + available_names()});
  }
  for (const KernelSet* set : kSets) {
    if (set->available()) return *set;
  }
  return kPortableKernels;
}

}  // namespace

bool always_available() {
  return true;
}

#if defined(__x86_64__)
bool avx2_available() {  // these look at the operating system's part, too
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}
bool avx512_available() {
  return avx2_available() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
bool avx512_vnni_available() {
  return avx512_available() && __builtin_cpu_supports("avx512vnni");
}
#endif

void decode_any_row(tensor::DType type, const std::byte* row, std::int64_t n, float* out) {
  const auto elements = static_cast<std::size_t>(n);
  const std::uint64_t bytes = tensor::byte_size(type, elements).value();
  tensor::decode_row(type, {row, static_cast<std::size_t>(bytes)}, {out, elements});
}

std::span<const KernelSet* const> kernel_sets() {
  return kSets;
}

const KernelSet& best_kernel_set() {
  static const KernelSet& best = choose();
  return best;
}

const KernelSet* find_kernel_set(std::string_view name) {
  for (const KernelSet* set : kSets) {
    if (set->name == name) return set;
  }
  return nullptr;
}

}  // namespace pastkv::engine
