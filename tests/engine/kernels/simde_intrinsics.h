// AVX-512 on any x86-64 machine with AVX2: SIMDe computes each operation, and here are those that it lacks.
#pragma once

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>

namespace pastkv::simde_missing {

// Applies an operation on eight lanes to both halves of sixteen.
template <typename Operation>
inline simde__m512 on_halves(simde__m512i a, Operation operation) {
  simde__m512i_private bits = simde__m512i_to_private(a);
  simde__m512_private result;
  for (int i = 0; i < 2; ++i) result.m256[i] = operation(bits.m256i[i]);
  return simde__m512_from_private(result);
}
inline simde__m512 cvtepi32_ps(simde__m512i a) {
  return on_halves(a, [](simde__m256i half) { return simde_mm256_cvtepi32_ps(half); });
}
inline simde__m512i cvtps_epi32(simde__m512 a) {
  simde__m512_private floats = simde__m512_to_private(a);
  simde__m512i_private result;
  for (int i = 0; i < 2; ++i) result.m256i[i] = simde_mm256_cvtps_epi32(floats.m256[i]);
  return simde__m512i_from_private(result);
}
inline simde__m512 cvtph_ps(simde__m256i a) {
  simde__m512_private result;
  result.m256[0] = simde_mm256_cvtph_ps(simde_mm256_castsi256_si128(a));
  result.m256[1] = simde_mm256_cvtph_ps(simde_mm256_extracti128_si256(a, 1));
  return simde__m512_from_private(result);
}
inline simde__m256i cvtps_ph(simde__m512 a) {
  simde__m512_private floats = simde__m512_to_private(a);
  return simde_mm256_set_m128i(simde_mm256_cvtps_ph(floats.m256[1], 0), simde_mm256_cvtps_ph(floats.m256[0], 0));
}
inline simde__m512i cvtepi8_epi32(simde__m128i a) {
  simde__m512i_private result;
  result.m256i[0] = simde_mm256_cvtepi8_epi32(a);
  result.m256i[1] = simde_mm256_cvtepi8_epi32(simde_mm_srli_si128(a, 8));
  return simde__m512i_from_private(result);
}
inline simde__m512i cvtepu16_epi32(simde__m256i a) {
  simde__m512i_private result;
  result.m256i[0] = simde_mm256_cvtepu16_epi32(simde_mm256_castsi256_si128(a));
  result.m256i[1] = simde_mm256_cvtepu16_epi32(simde_mm256_extracti128_si256(a, 1));
  return simde__m512i_from_private(result);
}

template <int kCount>
inline simde__m512i srai_epi32(simde__m512i a) {
  simde__m512i_private bits = simde__m512i_to_private(a);
  for (int i = 0; i < 2; ++i) bits.m256i[i] = simde_mm256_srai_epi32(bits.m256i[i], kCount);
  return simde__m512i_from_private(bits);
}

}  // namespace pastkv::simde_missing

#undef _mm512_madd_epi16  // its alias stands for another operation
#undef _mm512_cvtepi32_ps
#undef _mm512_cvtps_epi32
#undef _mm512_cvtph_ps
#undef _mm512_cvtps_ph
#undef _mm512_cvtepi8_epi32
#undef _mm512_cvtepu16_epi32
#undef _mm512_srai_epi32
#define _mm512_madd_epi16(a, b) simde_mm512_madd_epi16(a, b)
#define _mm512_cvtepi32_ps(a) pastkv::simde_missing::cvtepi32_ps(a)
#define _mm512_cvtps_epi32(a) pastkv::simde_missing::cvtps_epi32(a)
#define _mm512_cvtph_ps(a) pastkv::simde_missing::cvtph_ps(a)
#define _mm512_cvtps_ph(a, rounding) pastkv::simde_missing::cvtps_ph(a)
#define _mm512_cvtepi8_epi32(a) pastkv::simde_missing::cvtepi8_epi32(a)
#define _mm512_cvtepu16_epi32(a) pastkv::simde_missing::cvtepu16_epi32(a)
#define _mm512_srai_epi32(a, count) pastkv::simde_missing::srai_epi32<count>(a)
