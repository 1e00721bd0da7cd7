// Rows and bytes with 256-bit vectors: the part of the vector operations (see simd_portable.h for what each means) that
// AVX2 and AVX-512 share.
#pragma once

#if defined(PASTKV_INTRINSICS)
#include PASTKV_INTRINSICS
#else
#include <immintrin.h>
#endif

#include <cstddef>
#include <cstdint>

namespace pastkv::engine::PASTKV_KERNELS {

inline void prefetch(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
}
inline void quantize32(const float* x, float inverse, std::uint8_t* out) {
  const __m256 factor = _mm256_set1_ps(inverse);
  __m256i whole[4];
  for (int i = 0; i < 4; ++i) whole[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), factor));
  const __m256i low = _mm256_packs_epi32(whole[0], whole[1]);
  const __m256i high = _mm256_packs_epi32(whole[2], whole[3]);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i q = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), q);
}
inline std::int32_t sum_of_four(__m128i a) {
  a = _mm_add_epi32(a, _mm_shuffle_epi32(a, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(a, _mm_shuffle_epi32(a, 0xB1)));
}
inline void sum_halves(const std::uint8_t* q, std::int32_t* sums) {
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(q));
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
  const __m256i fours = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  sums[0] = sum_of_four(_mm256_castsi256_si128(fours));
  sums[1] = sum_of_four(_mm256_extracti128_si256(fours, 1));
}

using B32 = __m256i;

inline B32 load32(const std::uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
inline B32 load_two(const std::uint8_t* first, const std::uint8_t* last) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(first))),
                                 _mm_loadu_si128(reinterpret_cast<const __m128i*>(last)), 1);
}
inline B32 nibbles(const std::uint8_t* p) {
  const __m256i both = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m256i shifted = _mm256_srlv_epi32(both, _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4));
  return _mm256_and_si256(shifted, _mm256_set1_epi8(15));
}
template <int kShift>
inline B32 shift_right(B32 a, std::uint8_t mask) {
  const __m256i shifted = kShift == 0 ? a : _mm256_srli_epi16(a, kShift);
  return _mm256_and_si256(shifted, _mm256_set1_epi8(static_cast<char>(mask)));
}
template <int kShift>
inline B32 shift_left(B32 a, std::uint8_t mask) {
  return _mm256_and_si256(_mm256_slli_epi16(a, kShift), _mm256_set1_epi8(static_cast<char>(mask)));
}
inline B32 either(B32 a, B32 b) {
  return _mm256_or_si256(a, b);
}
inline B32 spread(std::uint32_t bits, std::uint8_t value) {
  const __m256i all = _mm256_set1_epi32(static_cast<int>(bits));
  // Byte i of the result looks at byte i / 8 of the bits, and there at bit i % 8.
  const __m256i source = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201ULL));
  const __m256i seen = _mm256_and_si256(_mm256_shuffle_epi8(all, source), bit);
  return _mm256_and_si256(_mm256_cmpeq_epi8(seen, bit), _mm256_set1_epi8(static_cast<char>(value)));
}
inline B32 lookup(B32 index, const std::int8_t* table) {
  const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), index);
}
inline B32 flip_sign(B32 a) {
  return _mm256_xor_si256(a, _mm256_set1_epi8(static_cast<char>(0x80)));
}
inline void store_transposed(const B32 (&rows)[8], std::uint8_t* out, std::size_t stride) {
  __m256i pairs[8], fours[8];
  for (int i = 0; i < 4; ++i) {
    pairs[2 * i] = _mm256_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]);
    pairs[2 * i + 1] = _mm256_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]);
  }
  for (int i = 0; i < 2; ++i) {  // of rows 4 i to 4 i + 3: dwords 0, 1, 2, 3 (and four further on)
    fours[4 * i] = _mm256_unpacklo_epi64(pairs[4 * i], pairs[4 * i + 2]);
    fours[4 * i + 1] = _mm256_unpackhi_epi64(pairs[4 * i], pairs[4 * i + 2]);
    fours[4 * i + 2] = _mm256_unpacklo_epi64(pairs[4 * i + 1], pairs[4 * i + 3]);
    fours[4 * i + 3] = _mm256_unpackhi_epi64(pairs[4 * i + 1], pairs[4 * i + 3]);
  }
  for (std::size_t k = 0; k < 4; ++k) {
    auto* low = reinterpret_cast<__m256i*>(out + k * stride);
    auto* high = reinterpret_cast<__m256i*>(out + (k + 4) * stride);
    _mm256_storeu_si256(low, _mm256_permute2x128_si256(fours[k], fours[k + 4], 0x20));
    _mm256_storeu_si256(high, _mm256_permute2x128_si256(fours[k], fours[k + 4], 0x31));
  }
}

using F8 = __m256;

inline F8 load8(const float* p) {
  return _mm256_loadu_ps(p);
}
inline void store8(float* p, F8 a) {
  _mm256_storeu_ps(p, a);
}
inline F8 set8(float value) {
  return _mm256_set1_ps(value);
}
inline F8 add8(F8 a, F8 b) {
  return _mm256_add_ps(a, b);
}
inline F8 mul8(F8 a, F8 b) {
  return _mm256_mul_ps(a, b);
}
inline F8 fma8(F8 a, F8 b, F8 c) {
  return _mm256_fmadd_ps(a, b, c);
}
inline F8 subtract_product8(F8 a, F8 b, F8 c) {
  return _mm256_fnmadd_ps(a, b, c);
}
inline float sum8(F8 a) {
  __m128 half = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}
inline F8 load8_f16(const std::uint8_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline F8 load8_bf16(const std::uint8_t* p) {
  const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}
// Eight floats as bf16, each in 32 bits.
inline __m256i to_bf16(__m256 a) {
  const __m256i bits = _mm256_castps_si256(a);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
  return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
}
inline void store8_bf16(std::uint8_t* p, F8 a) {
  const __m256i upper = to_bf16(a);
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(upper, upper), 0x08);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
}
struct Spread8 {
  F8 low, high;  // lanes 0 to 3, 4 to 7, in both halves
};
inline Spread8 spread8(F8 a) {
  return {_mm256_permute2f128_ps(a, a, 0x00), _mm256_permute2f128_ps(a, a, 0x11)};
}
template <int kIndex>
inline F8 lane_of(const Spread8& a) {
  return _mm256_permute_ps(kIndex < 4 ? a.low : a.high, kIndex % 4 * 0x55);
}
template <int kIndex>
inline F8 lane_of_each_half(F8 a) {
  return _mm256_permute_ps(a, kIndex * 0x55);
}
inline F8 bytes_to_float8(std::uint64_t signed_bytes) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_cvtsi64_si128(static_cast<long long>(signed_bytes))));
}
inline float half(const std::uint8_t* p) {
  unsigned short value;
  __builtin_memcpy(&value, p, sizeof(value));
  return _cvtsh_ss(value);
}
template <typename Order>
inline F8 gather_f16(const std::uint8_t* p, std::size_t stride, int count, Order) {
  const std::size_t last = stride * static_cast<std::size_t>(count - 1);
  auto at = [&](std::size_t i) {
    const std::size_t offset = Order::at(i) * stride;
    short value;
    __builtin_memcpy(&value, p + (offset < last ? offset : last), sizeof(value));
    return value;
  };
  return _mm256_cvtph_ps(_mm_setr_epi16(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)));
}
inline B32 as_bytes(F8 a) {
  return _mm256_castps_si256(a);
}

using I8 = __m256i;

template <int kBits>
inline __m256i pair_products(B32 w, B32 x) {  // of neighbours, 16 bits
  if constexpr (kBits == 8) return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
  return _mm256_maddubs_epi16(w, x);
}
template <int kBits>
inline I8 dot32(B32 w, B32 x) {
#if defined(PASTKV_VNNI)
  if constexpr (kBits == 8)
    return _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
  return _mm256_dpbusd_epi32(_mm256_setzero_si256(), w, x);
#else
  return _mm256_madd_epi16(pair_products<kBits>(w, x), _mm256_set1_epi16(1));
#endif
}
template <int kBits>
inline I8 dot_pair(B32 w0, B32 x0, B32 w1, B32 x1) {
  if constexpr (kBits == 8) return _mm256_add_epi32(dot32<8>(w0, x0), dot32<8>(w1, x1));
  const __m256i both = _mm256_add_epi16(pair_products<kBits>(w0, x0), pair_products<kBits>(w1, x1));
  return _mm256_madd_epi16(both, _mm256_set1_epi16(1));
}
struct S16 {
  __m256i low, high;  // scales 0 to 7, 8 to 15, in both halves
};
inline S16 load_scales(const std::uint64_t (&signed_bytes)[2]) {
  const __m128i bytes =
      _mm_set_epi64x(static_cast<long long>(signed_bytes[1]), static_cast<long long>(signed_bytes[0]));
  const __m256i words = _mm256_cvtepi8_epi16(bytes);
  return {_mm256_permute4x64_epi64(words, 0x44), _mm256_permute4x64_epi64(words, 0xEE)};
}
inline void store_scales(std::int16_t* p, const S16& scales) {
  const __m256i words = _mm256_permute2x128_si256(scales.low, scales.high, 0x20);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), words);
}
template <int kGroup>
inline I8 dot32_scaled(B32 w, B32 x, const S16& scales) {
  constexpr int kFirst = kGroup % 4 * 4;  // byte of the first half's scale
  constexpr auto kLow = static_cast<short>(kFirst | (kFirst + 1) << 8);
  constexpr auto kHigh = static_cast<short>((kFirst + 2) | (kFirst + 3) << 8);
  const __m256i pick = _mm256_setr_m128i(_mm_set1_epi16(kLow), _mm_set1_epi16(kHigh));
  const __m256i scale = _mm256_shuffle_epi8(kGroup < 4 ? scales.low : scales.high, pick);
  return _mm256_madd_epi16(pair_products<6>(w, x), scale);
}
inline F8 to_float8(I8 a) {
  return _mm256_cvtepi32_ps(a);
}

}  // namespace pastkv::engine::PASTKV_KERNELS
