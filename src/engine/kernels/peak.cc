#include "engine/kernels/peak.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace pastkv::engine {
namespace {

// Chains that run side by side: more than latency times units of any processor here.
constexpr int kChains = 10;

// The compiler must take the value for changed, or it would compute the loop away.
#if defined(__x86_64__)
#define PASTKV_OPAQUE(value) asm volatile("" : "+x"(value))
#else
#define PASTKV_OPAQUE(value) asm volatile("" : "+w"(value))
#endif

#if defined(__x86_64__)

__attribute__((target("avx2,fma"))) double f32_avx2(std::int64_t rounds) {
  __m256 sum[kChains] = {};
  __m256 a = _mm256_set1_ps(0.5F);
  __m256 b = _mm256_set1_ps(0.25F);
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (__m256& s : sum) s = _mm256_fmadd_ps(s, a, b);
  }
  for (__m256& s : sum) PASTKV_OPAQUE(s);
  return static_cast<double>(rounds) * kChains * 8 * 2;
}

__attribute__((target("avx2"))) double int8_avx2(std::int64_t rounds) {
  __m256i sum[kChains] = {};
  __m256i x = _mm256_set1_epi8(3);
  const __m256i y = _mm256_set1_epi8(5);
  const __m256i ones = _mm256_set1_epi16(1);
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (__m256i& s : sum) {
      PASTKV_OPAQUE(x);
      s = _mm256_add_epi32(s, _mm256_madd_epi16(_mm256_maddubs_epi16(x, y), ones));
    }
  }
  for (__m256i& s : sum) PASTKV_OPAQUE(s);
  return static_cast<double>(rounds) * kChains * 32 * 2;
}

__attribute__((target("avx512f"))) double f32_avx512(std::int64_t rounds) {
  __m512 sum[kChains] = {};
  const __m512 a = _mm512_set1_ps(0.5F);
  const __m512 b = _mm512_set1_ps(0.25F);
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (__m512& s : sum) s = _mm512_fmadd_ps(s, a, b);
  }
  for (__m512& s : sum) asm volatile("" : "+v"(s));
  return static_cast<double>(rounds) * kChains * 16 * 2;
}

__attribute__((target("avx512f,avx512bw"))) double int8_avx512(std::int64_t rounds) {
  __m512i sum[kChains] = {};
  __m512i x = _mm512_set1_epi8(3);
  const __m512i y = _mm512_set1_epi8(5);
  const __m512i ones = _mm512_set1_epi16(1);
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (__m512i& s : sum) {
      asm volatile("" : "+v"(x));
      s = _mm512_add_epi32(s, _mm512_madd_epi16(_mm512_maddubs_epi16(x, y), ones));
    }
  }
  for (__m512i& s : sum) asm volatile("" : "+v"(s));
  return static_cast<double>(rounds) * kChains * 64 * 2;
}

__attribute__((target("avx512f,avx512vnni"))) double int8_avx512_vnni(std::int64_t rounds) {
  __m512i sum[kChains] = {};
  const __m512i x = _mm512_set1_epi8(3);
  const __m512i y = _mm512_set1_epi8(5);
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (__m512i& s : sum) s = _mm512_dpbusd_epi32(s, x, y);
  }
  for (__m512i& s : sum) asm volatile("" : "+v"(s));
  return static_cast<double>(rounds) * kChains * 64 * 2;
}

#elif defined(__aarch64__)

double f32_neon(std::int64_t rounds) {
  float32x4_t sum[kChains] = {};
  const float32x4_t a = vdupq_n_f32(0.5F);
  const float32x4_t b = vdupq_n_f32(0.25F);
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (float32x4_t& s : sum) s = vfmaq_f32(b, s, a);
  }
  for (float32x4_t& s : sum) PASTKV_OPAQUE(s);
  return static_cast<double>(rounds) * kChains * 4 * 2;
}

double int8_neon(std::int64_t rounds) {
  int32x4_t sum[kChains] = {};
  int8x8_t x = vdup_n_s8(3);
  const int8x8_t y = vdup_n_s8(5);
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (int32x4_t& s : sum) {
      PASTKV_OPAQUE(x);
      s = vpadalq_s16(s, vmull_s8(x, y));
    }
  }
  for (int32x4_t& s : sum) PASTKV_OPAQUE(s);
  return static_cast<double>(rounds) * kChains * 8 * 2;
}

#endif

#if !defined(__aarch64__)

// What any processor of the family has: four floats, eight 16-bit integers at a time.
double f32_portable(std::int64_t rounds) {
  using Floats = float __attribute__((vector_size(16)));
  Floats sum[kChains] = {};
  const Floats a = {0.5F, 0.5F, 0.5F, 0.5F};
  const Floats b = {0.25F, 0.25F, 0.25F, 0.25F};
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (Floats& s : sum) s = s * a + b;
  }
  for (Floats& s : sum) asm volatile("" : : "m"(s));
  return static_cast<double>(rounds) * kChains * 4 * 2;
}

double int8_portable(std::int64_t rounds) {
  using Shorts = short __attribute__((vector_size(16)));
  Shorts sum[kChains] = {};
  Shorts x = {3, 3, 3, 3, 3, 3, 3, 3};
  const Shorts y = {5, 5, 5, 5, 5, 5, 5, 5};
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (Shorts& s : sum) s += x * y + s;
  }
  for (Shorts& s : sum) asm volatile("" : : "m"(s));
  return static_cast<double>(rounds) * kChains * 8 * 2;
}

#endif

}  // namespace

PeakLoops peak_loops() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")) {
    if (__builtin_cpu_supports("avx512vnni")) return {"avx512_vnni", f32_avx512, int8_avx512_vnni};
    return {"avx512", f32_avx512, int8_avx512};
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {"avx2", f32_avx2, int8_avx2};
  return {"portable", f32_portable, int8_portable};
#elif defined(__aarch64__)
  return {"neon", f32_neon, int8_neon};
#else
  return {"portable", f32_portable, int8_portable};
#endif
}

}  // namespace pastkv::engine
