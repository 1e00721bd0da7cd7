// Elementary functions on vectors, to about 3e-7 relative unless said.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/simd.h"

namespace pastkv::engine::PASTKV_KERNELS {

inline constexpr float kInfinity = __builtin_inff();

// exp: x = n ln 2 + r, Taylor's series to r^6 (|r| <= 0.347 leaves 1.2e-7). 0 below -86.6, infinity above 88.7.
inline F exponential(F x) {
  const F n = round_even(mul(x, set1(1.44269504F)));
  F r = subtract_product(n, set1(0.693359375F), x);  // ln 2 in two parts, the first exact in few bits
  r = subtract_product(n, set1(-2.12194440e-4F), r);
  F p = set1(1.0F / 720.0F);
  p = fma(p, r, set1(1.0F / 120.0F));
  p = fma(p, r, set1(1.0F / 24.0F));
  p = fma(p, r, set1(1.0F / 6.0F));
  p = fma(p, r, set1(0.5F));
  p = fma(p, r, set1(1.0F));
  p = fma(p, r, set1(1.0F));
  const F result = mul(add(p, p), power_of_two(sub(n, set1(1.0F))));
  const F above_zero = select_less(x, set1(-86.6F), set1(0.0F), result);
  return select_less(set1(88.722F), x, set1(kInfinity), above_zero);
}

inline F sigmoid(F x) {
  return div(set1(1.0F), add(set1(1.0F), exponential(sub(set1(0.0F), x))));
}

// tanh: the series near 0, 1 - 2 / (exp(2x) + 1) elsewhere; 1e-6 relative.
inline F hyperbolic_tangent(F x) {
  const F square = mul(x, x);
  F series = fma(square, set1(-17.0F / 315.0F), set1(2.0F / 15.0F));
  series = fma(series, square, set1(-1.0F / 3.0F));
  series = fma(mul(series, square), x, x);
  const F far = sub(set1(1.0F), div(set1(2.0F), add(exponential(add(x, x)), set1(1.0F))));
  return select_less(absolute(x), set1(0.2F), series, far);
}

// The error function by Abramowitz and Stegun 7.1.26; 3e-7 absolute.
inline F error_function(F x) {
  const F z = absolute(x);
  const F t = div(set1(1.0F), fma(z, set1(0.3275911F), set1(1.0F)));
  F p = set1(1.061405429F);
  p = fma(p, t, set1(-1.453152027F));
  p = fma(p, t, set1(1.421413741F));
  p = fma(p, t, set1(-0.284496736F));
  p = fma(p, t, set1(0.254829592F));
  p = mul(p, t);
  const F result = subtract_product(p, exponential(sub(set1(0.0F), mul(z, z))), set1(1.0F));
  return select_less(x, set1(0.0F), sub(set1(0.0F), result), result);
}

struct Silu {
  static F apply(F x) { return mul(x, sigmoid(x)); }
};
struct GeluTanh {  // 0.5 x (1 + tanh u) = x sigmoid(2u), u = sqrt(2 / pi) (x + 0.044715 x^3)
  static F apply(F x) {
    const F cubic = fma(mul(mul(x, x), x), set1(0.044715F), x);
    return mul(x, sigmoid(mul(cubic, set1(1.5957691216F))));
  }
};
struct GeluErf {
  static F apply(F x) {
    const F half = mul(x, set1(0.5F));
    return fma(half, error_function(mul(x, set1(0.70710678118F))), half);
  }
};
struct Relu {
  static F apply(F x) { return max(set1(0.0F), x); }
};

// Calls body(offset, count) over n floats, count being kLanes but at the end.
template <typename Body>
inline void for_lanes(std::int64_t n, Body body) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, kLanes);
  if (i < n) body(i, static_cast<int>(n - i));
}
inline F load_some(const float* p, int count) {
  if (count == kLanes) return load(p);
  float padded[kLanes] = {};
  __builtin_memcpy(padded, p, static_cast<std::size_t>(count) * sizeof(float));
  return load(padded);
}
inline void store_some(float* p, F value, int count) {
  if (count == kLanes) return store(p, value);
  float padded[kLanes];
  store(padded, value);
  __builtin_memcpy(p, padded, static_cast<std::size_t>(count) * sizeof(float));
}

}  // namespace pastkv::engine::PASTKV_KERNELS
