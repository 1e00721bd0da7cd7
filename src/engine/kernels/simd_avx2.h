// The vector operations of the kernels (see simd_portable.h for what each means) with AVX2, FMA and F16C.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/simd_x86_rows.h"

namespace pastkv::engine::PASTKV_KERNELS {

inline constexpr int kLanes = 8;
inline constexpr int kFloatTile = 6;
inline constexpr int kTileColumns = 4;
inline constexpr bool kUnsignedWeights = false;

using F = __m256;

inline F load(const float* p) {
  return _mm256_loadu_ps(p);
}
inline void store(float* p, F a) {
  _mm256_storeu_ps(p, a);
}
inline F set1(float value) {
  return _mm256_set1_ps(value);
}
inline F add(F a, F b) {
  return _mm256_add_ps(a, b);
}
inline F sub(F a, F b) {
  return _mm256_sub_ps(a, b);
}
inline F mul(F a, F b) {
  return _mm256_mul_ps(a, b);
}
inline F div(F a, F b) {
  return _mm256_div_ps(a, b);
}
inline F fma(F a, F b, F c) {
  return _mm256_fmadd_ps(a, b, c);
}
inline F subtract_product(F a, F b, F c) {
  return _mm256_fnmadd_ps(a, b, c);
}
inline F max(F a, F b) {
  return _mm256_max_ps(a, b);
}
inline F absolute(F a) {
  return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), a);
}
inline F max_magnitude(F a, F b) {
  return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(a), _mm256_castps_si256(absolute(b))));
}
inline F round_even(F a) {
  return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline F select_less(F a, F b, F less, F other) {
  return _mm256_blendv_ps(other, less, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
inline F power_of_two(F n) {
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}
inline float sum(F a) {
  return sum8(a);
}
inline float maximum(F a) {
  __m128i half = _mm_max_epi32(_mm256_castsi256_si128(_mm256_castps_si256(a)),
                               _mm256_extracti128_si256(_mm256_castps_si256(a), 1));
  half = _mm_max_epi32(half, _mm_shuffle_epi32(half, 0x4E));
  half = _mm_max_epi32(half, _mm_shuffle_epi32(half, 0xB1));
  return _mm_cvtss_f32(_mm_castsi128_ps(half));
}
inline F load_f16(const std::uint8_t* p) {
  return load8_f16(p);
}
inline F load_bf16(const std::uint8_t* p) {
  return load8_bf16(p);
}
inline F load_i8(const std::uint8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
inline void store_f16(std::uint8_t* p, F a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
inline void store_bf16(std::uint8_t* p, F a) {
  store8_bf16(p, a);
}

using X = __m256i;
using I = __m256i;
using P = __m256i;  // 16-bit sums of two, a pair of them per row; with 8-bit weights one of 32 bits

// A pair of products of weights below 2^kBits is at most 2 (2^kBits - 1) 127: so many fit 16 bits. Those of 8-bit
// weights are widened at once.
template <int kBits>
inline constexpr int kChain = kBits <= 4   ? 8
                              : kBits == 5 ? 4
                              : kBits == 6 ? 2
                                           : 8;

struct SignedW {
  __m256i weights, magnitudes;
};
template <int kBits>
inline auto load_weights(const std::uint8_t* p) {
  const __m256i w = load32(p);
  if constexpr (kBits == 8) {
    return SignedW{w, _mm256_abs_epi8(w)};
  } else {
    return w;
  }
}
// Keeps the compiler from computing all products first and their sums after, with more numbers than there are
// registers.
[[gnu::always_inline]] inline __m256i settled(__m256i value) {
  asm volatile("" : "+x"(value));
  return value;
}
inline X broadcast4(const std::uint8_t* p) {
  int four;
  __builtin_memcpy(&four, p, sizeof(four));
  return settled(_mm256_set1_epi32(four));
}
template <int kBits>
inline P products(__m256i w, X x) {
  return _mm256_maddubs_epi16(w, x);
}
template <int kBits>
inline P products(SignedW w, X x) {
  const __m256i pairs = _mm256_maddubs_epi16(w.magnitudes, _mm256_sign_epi8(x, w.weights));
  return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}
template <int kBits, typename Weights>
inline P products(Weights w, X x, P base) {
  const P more = products<kBits>(w, x);
  return settled(kBits == 8 ? _mm256_add_epi32(base, more) : _mm256_add_epi16(base, more));
}
template <int kBits>
inline I widen(P p) {
  return kBits == 8 ? p : _mm256_madd_epi16(p, _mm256_set1_epi16(1));
}
inline I widen_scaled(P p, const std::uint8_t* scales) {
  return _mm256_madd_epi16(p, load32(scales));
}
inline I add(I a, I b) {
  return _mm256_add_epi32(a, b);
}
inline F to_float(I a) {
  return _mm256_cvtepi32_ps(a);
}

}  // namespace pastkv::engine::PASTKV_KERNELS
