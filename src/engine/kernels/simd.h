// The vectors of the instruction set that is being compiled. A kernels_*.cc defines PASTKV_KERNELS, the namespace of
// its kernel set, and PASTKV_SIMD, the header with its vectors, before it includes anything.
#pragma once

#include PASTKV_SIMD

#include "engine/kernels/kernel_set.h"

namespace pastkv::engine::PASTKV_KERNELS {

// Orders of eight groups: as they are, or the even ones before the odd ones (see row_product.h).
struct InOrder {
  static constexpr std::size_t at(std::size_t i) { return i; }
};
struct EvenFirst {
  static constexpr std::size_t at(std::size_t i) { return i < 4 ? 2 * i : 2 * i - 7; }
};

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

// Runs body(Constant<n>, first column) over all columns, with n = kMost, then a third or a half of it, then 1, as they
// fit: few sizes keep the code small.
template <int kMost, typename Body>
inline void for_column_tiles(std::int64_t columns, Body body) {
  constexpr int kLess = kMost % 3 == 0 ? kMost / 3 : kMost / 2;
  std::int64_t column = 0;
  for (; column + kMost <= columns; column += kMost) body(Constant<kMost>{}, column);
  if constexpr (kLess > 1) {
    for (; column + kLess <= columns; column += kLess) body(Constant<kLess>{}, column);
  }
  if constexpr (kMost > 1) {
    for (; column < columns; ++column) body(Constant<1>{}, column);
  }
}

}  // namespace pastkv::engine::PASTKV_KERNELS
