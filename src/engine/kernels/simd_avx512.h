// The vector operations of the kernels (see simd_portable.h for what each means) with AVX-512 F, BW, DQ and VL, and
// with VNNI when PASTKV_VNNI is defined.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/simd_x86_rows.h"

namespace pastkv::engine::PASTKV_KERNELS {

inline constexpr int kLanes = 16;
inline constexpr int kFloatTile = 12;
inline constexpr int kTileColumns = 4;

using F = __m512;

inline F load(const float* p) {
  return _mm512_loadu_ps(p);
}
inline void store(float* p, F a) {
  _mm512_storeu_ps(p, a);
}
inline F set1(float value) {
  return _mm512_set1_ps(value);
}
inline F add(F a, F b) {
  return _mm512_add_ps(a, b);
}
inline F sub(F a, F b) {
  return _mm512_sub_ps(a, b);
}
inline F mul(F a, F b) {
  return _mm512_mul_ps(a, b);
}
inline F div(F a, F b) {
  return _mm512_div_ps(a, b);
}
inline F fma(F a, F b, F c) {
  return _mm512_fmadd_ps(a, b, c);
}
inline F subtract_product(F a, F b, F c) {
  return _mm512_fnmadd_ps(a, b, c);
}
inline F max(F a, F b) {
  return _mm512_max_ps(a, b);
}
inline F absolute(F a) {
  return _mm512_abs_ps(a);
}
inline F max_magnitude(F a, F b) {
  return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(a), _mm512_castps_si512(absolute(b))));
}
inline F round_even(F a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline F select_less(F a, F b, F less, F other) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), other, less);
}
inline F power_of_two(F n) {
  const __m512i exponent = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
  return _mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23));
}
inline __m256 low_half(F a) {
  return _mm512_castps512_ps256(a);
}
inline __m256 high_half(F a) {
  return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a), 1));
}
inline float sum(F a) {
  return sum8(_mm256_add_ps(low_half(a), high_half(a)));
}
inline float maximum(F a) {
  const __m256i eight = _mm256_max_epi32(_mm256_castps_si256(low_half(a)), _mm256_castps_si256(high_half(a)));
  __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4E));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0xB1));
  return _mm_cvtss_f32(_mm_castsi128_ps(four));
}
inline F load_f16(const std::uint8_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline F load_bf16(const std::uint8_t* p) {
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}
inline F load_i8(const std::uint8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
inline void store_f16(std::uint8_t* p, F a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
inline void store_bf16(std::uint8_t* p, F a) {
  store8_bf16(p, low_half(a));
  store8_bf16(p + 16, high_half(a));
}

using X = __m512i;
using I = __m512i;

inline __m512i load64(const std::uint8_t* p) {
  return _mm512_loadu_si512(reinterpret_cast<const void*>(p));
}
inline X broadcast4(const std::uint8_t* p) {
  int four;
  __builtin_memcpy(&four, p, sizeof(four));
  return _mm512_set1_epi32(four);
}
inline I add(I a, I b) {
  return _mm512_add_epi32(a, b);
}
inline F to_float(I a) {
  return _mm512_cvtepi32_ps(a);
}

using P = __m512i;

#if defined(PASTKV_VNNI)

inline constexpr bool kUnsignedWeights = true;
template <int kBits>
inline constexpr int kChain = 8;

template <int kBits>
inline __m512i load_weights(const std::uint8_t* p) {
  return load64(p);
}
template <int kBits>
inline P products(__m512i w, X x, P base) {
  return _mm512_dpbusd_epi32(base, w, x);
}
template <int kBits>
inline P products(__m512i w, X x) {
  return _mm512_dpbusd_epi32(_mm512_setzero_si512(), w, x);
}
template <int>
inline I widen(P p) {
  return p;
}
inline I widen_scaled(P p, const std::uint8_t* scales) {
  return _mm512_mullo_epi32(p, _mm512_srai_epi32(load64(scales), 16));
}

#else

inline constexpr bool kUnsignedWeights = false;
template <int kBits>
inline constexpr int kChain = kBits <= 4   ? 8
                              : kBits == 5 ? 4
                              : kBits == 6 ? 2
                                           : 8;  // as with AVX2

struct SignedW {
  __m512i magnitudes;
  __mmask64 negative;
};
template <int kBits>
inline auto load_weights(const std::uint8_t* p) {
  const __m512i w = load64(p);
  if constexpr (kBits == 8) {
    return SignedW{_mm512_abs_epi8(w), _mm512_movepi8_mask(w)};
  } else {
    return w;
  }
}
template <int kBits>
inline P products(__m512i w, X x) {
  return _mm512_maddubs_epi16(w, x);
}
template <int kBits>
inline P products(SignedW w, X x) {
  const __m512i signed_x = _mm512_mask_sub_epi8(x, w.negative, _mm512_setzero_si512(), x);
  return _mm512_madd_epi16(_mm512_maddubs_epi16(w.magnitudes, signed_x), _mm512_set1_epi16(1));
}
template <int kBits, typename Weights>
inline P products(Weights w, X x, P base) {
  const P more = products<kBits>(w, x);
  return kBits == 8 ? _mm512_add_epi32(base, more) : _mm512_add_epi16(base, more);
}
template <int kBits>
inline I widen(P p) {
  return kBits == 8 ? p : _mm512_madd_epi16(p, _mm512_set1_epi16(1));
}
inline I widen_scaled(P p, const std::uint8_t* scales) {
  return _mm512_madd_epi16(p, load64(scales));
}

#endif

}  // namespace pastkv::engine::PASTKV_KERNELS
