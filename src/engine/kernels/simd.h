// The vectors of the instruction set that is being compiled. A kernels_*.cc defines PASTKV_KERNELS, the namespace of
// its kernel set, and PASTKV_SIMD, the header with its vectors, before it includes anything.
#pragma once

#include PASTKV_SIMD

#include "engine/kernels/kernel_set.h"

namespace pastkv::engine::PASTKV_KERNELS {

// A number known to the compiler, and a loop over such numbers.
template <int kValue>
struct Constant {
  static constexpr int value = kValue;
};
template <int kFirst, int kLast, typename Body>
[[gnu::always_inline]] inline void unrolled(Body body) {
  if constexpr (kFirst < kLast) {
    body(Constant<kFirst>{});
    unrolled<kFirst + 1, kLast>(body);
  }
}

// Runs body(Constant<n>, first column) over all columns, n = kMost while as many are left.
template <int kMost, typename Body>
inline void for_column_tiles(std::int64_t columns, Body body) {
  std::int64_t column = 0;
  for (; column + kMost <= columns; column += kMost) body(Constant<kMost>{}, column);
  unrolled<1, kMost>([&](auto count) {
    if (count.value == columns - column) body(count, column);
  });
}

}  // namespace pastkv::engine::PASTKV_KERNELS
