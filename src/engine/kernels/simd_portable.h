// The vector operations of the kernels in plain C++: four lanes, left to the compiler to map on what the target has.
// simd_avx2.h and simd_avx512.h define the same names; generic sources are compiled once with each. Everything lives in
// the namespace of one kernel set, so that the linker never mixes code compiled for different instruction sets.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pastkv::engine::PASTKV_KERNELS {

inline constexpr int kLanes = 4;                // floats of an F; also the rows of a panel vector
inline constexpr int kFloatTile = 4;            // columns of the float micro-kernel, two F wide
inline constexpr int kTileColumns = 2;          // of the micro-kernel for whole numbers, two I wide
inline constexpr bool kUnsignedWeights = true;  // 8-bit weights enter panels with 128 added (see panel.h)

// F: kLanes floats.
struct F {
  float lane[kLanes];
};

template <typename Function>
inline F lanes(Function function) {
  F result;
  for (int i = 0; i < kLanes; ++i) result.lane[i] = function(i);
  return result;
}
inline F load(const float* p) {
  return lanes([&](int i) { return p[i]; });
}
inline void store(float* p, F a) {
  for (int i = 0; i < kLanes; ++i) p[i] = a.lane[i];
}
inline F set1(float value) {
  return lanes([&](int) { return value; });
}
inline F add(F a, F b) {
  return lanes([&](int i) { return a.lane[i] + b.lane[i]; });
}
inline F sub(F a, F b) {
  return lanes([&](int i) { return a.lane[i] - b.lane[i]; });
}
inline F mul(F a, F b) {
  return lanes([&](int i) { return a.lane[i] * b.lane[i]; });
}
inline F div(F a, F b) {
  return lanes([&](int i) { return a.lane[i] / b.lane[i]; });
}
inline F fma(F a, F b, F c) {
  return lanes([&](int i) { return a.lane[i] * b.lane[i] + c.lane[i]; });
}
inline F subtract_product(F a, F b, F c) {  // c - a * b
  return lanes([&](int i) { return c.lane[i] - a.lane[i] * b.lane[i]; });
}
inline F max(F a, F b) {  // b where either is NaN
  return lanes([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline F absolute(F a) {
  return lanes([&](int i) { return __builtin_fabsf(a.lane[i]); });
}
inline F max_magnitude(F a, F b) {  // of |b| and an a >= 0; NaN where either is NaN
  return lanes([&](int i) {
    const auto left = __builtin_bit_cast(std::int32_t, a.lane[i]);
    const auto right = __builtin_bit_cast(std::int32_t, __builtin_fabsf(b.lane[i]));
    return __builtin_bit_cast(float, left > right ? left : right);
  });
}
inline F round_even(F a) {
  return lanes([&](int i) { return __builtin_nearbyintf(a.lane[i]); });
}
inline F select_less(F a, F b, F less, F other) {  // a < b ? less : other
  return lanes([&](int i) { return a.lane[i] < b.lane[i] ? less.lane[i] : other.lane[i]; });
}
inline F power_of_two(F n) {  // of whole numbers in [-126, 127]; anything for others
  return lanes([&](int i) {
    const float clamped = n.lane[i] > -126.0F ? (n.lane[i] < 127.0F ? n.lane[i] : 127.0F) : -126.0F;
    return __builtin_bit_cast(float, (static_cast<std::int32_t>(clamped) + 127) << 23);
  });
}
inline float sum(F a) {
  return (a.lane[0] + a.lane[2]) + (a.lane[1] + a.lane[3]);
}
inline float maximum(F a) {  // of lanes >= 0; NaN where one is NaN
  F result = set1(a.lane[0]);
  for (int i = 1; i < kLanes; ++i) result = max_magnitude(result, set1(a.lane[i]));
  return result.lane[0];
}

inline float half_to_float(std::uint16_t half) {
  // The exponent is moved by a multiplication, which also brings denormals into place.
  const std::uint32_t magnitude = static_cast<std::uint32_t>(half & 0x7FFFU) << 13;
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const float scaled = __builtin_bit_cast(float, magnitude) * 0x1p112F;
  std::uint32_t bits = __builtin_bit_cast(std::uint32_t, scaled);
  if (magnitude >= (0x7C00U << 13)) bits = magnitude | 0x7F800000U;  // infinity and NaN
  return __builtin_bit_cast(float, bits | sign);
}
inline std::uint16_t float_to_half(float value) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<std::uint16_t>(sign | 0x7E00U);
  if (magnitude >= 0x477FF000U) return static_cast<std::uint16_t>(sign | 0x7C00U);
  if (magnitude < 0x38800000U) {  // denormal: adding a power of two rounds at the right bit
    const float shifted = __builtin_bit_cast(float, magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (__builtin_bit_cast(std::uint32_t, shifted) - 0x3F000000U));
  }
  const std::uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
}
inline std::uint16_t load16(const void* p) {
  std::uint16_t value;
  __builtin_memcpy(&value, p, sizeof(value));
  return value;
}
inline F load_f16(const std::uint8_t* p) {
  return lanes([&](int i) { return half_to_float(load16(p + 2 * i)); });
}
inline F load_bf16(const std::uint8_t* p) {
  return lanes([&](int i) { return __builtin_bit_cast(float, static_cast<std::uint32_t>(load16(p + 2 * i)) << 16); });
}
inline F load_i8(const std::uint8_t* p) {
  return lanes([&](int i) { return static_cast<float>(static_cast<std::int8_t>(p[i])); });
}
inline void store_f16(std::uint8_t* p, F a) {
  for (int i = 0; i < kLanes; ++i) {
    const std::uint16_t half = float_to_half(a.lane[i]);
    __builtin_memcpy(p + 2 * i, &half, sizeof(half));
  }
}
inline void store_bf16(std::uint8_t* p, F a) {
  for (int i = 0; i < kLanes; ++i) {
    const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, a.lane[i]);
    const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
    const bool nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
    const auto half = static_cast<std::uint16_t>(nan ? (bits >> 16) | 0x40U : rounded);
    __builtin_memcpy(p + 2 * i, &half, sizeof(half));
  }
}
inline void prefetch(const void* p) {
  __builtin_prefetch(p);
}
// 32 floats times `inverse`, rounded to nearest even, to signed bytes.
inline void quantize32(const float* x, float inverse, std::uint8_t* out) {
  for (int i = 0; i < 32; ++i) {
    out[i] = static_cast<std::uint8_t>(static_cast<std::int8_t>(__builtin_lrintf(x[i] * inverse)));
  }
}
// Sums of the first and last 16 of 32 signed bytes.
inline void sum_halves(const std::uint8_t* q, std::int32_t* sums) {
  for (int half = 0; half < 2; ++half) {
    sums[half] = 0;
    for (int i = 0; i < 16; ++i) sums[half] += static_cast<std::int8_t>(q[16 * half + i]);
  }
}

// B32: 32 bytes, one block of unpacked weights or of activations.
struct B32 {
  std::uint8_t byte[32];
};

template <typename Function>
inline B32 bytes(Function function) {
  B32 result;
  for (int i = 0; i < 32; ++i) result.byte[i] = static_cast<std::uint8_t>(function(i));
  return result;
}
inline B32 load32(const std::uint8_t* p) {
  B32 result;
  __builtin_memcpy(result.byte, p, 32);
  return result;
}
inline B32 load_two(const std::uint8_t* first, const std::uint8_t* last) {  // 16 bytes from each
  return bytes([&](int i) { return i < 16 ? first[i] : last[i - 16]; });
}
inline B32 nibbles(const std::uint8_t* p) {  // low nibbles of 16 bytes, then their high nibbles
  return bytes([&](int i) { return i < 16 ? p[i] & 15 : p[i - 16] >> 4; });
}
template <int kShift>
inline B32 shift_right(B32 a, std::uint8_t mask) {  // (a >> shift) & mask
  return bytes([&](int i) { return (a.byte[i] >> kShift) & mask; });
}
template <int kShift>
inline B32 shift_left(B32 a, std::uint8_t mask) {  // (a << shift) & mask
  return bytes([&](int i) { return (a.byte[i] << kShift) & mask; });
}
inline B32 either(B32 a, B32 b) {
  return bytes([&](int i) { return a.byte[i] | b.byte[i]; });
}
inline B32 flip_sign(B32 a) {  // adds 128
  return bytes([&](int i) { return a.byte[i] ^ 0x80; });
}
inline B32 spread(std::uint32_t bits, std::uint8_t value) {  // value where bit i is set, 0 elsewhere
  return bytes([&](int i) { return ((bits >> i) & 1U) != 0 ? value : 0; });
}
inline B32 lookup(B32 index, const std::int8_t* table) {
  return bytes([&](int i) { return table[index.byte[i]]; });
}
// Eight rows of eight dwords; dword k of row r goes to out + k * stride + 4 * r.
inline void store_transposed(const B32 (&rows)[8], std::uint8_t* out, std::size_t stride) {
  for (std::size_t r = 0; r < 8; ++r) {
    for (std::size_t k = 0; k < 8; ++k) __builtin_memcpy(out + k * stride + 4 * r, rows[r].byte + 4 * k, 4);
  }
}

// F8: eight floats, whatever kLanes is.
struct F8 {
  float lane[8];
};

template <typename Function>
inline F8 lanes8(Function function) {
  F8 result;
  for (int i = 0; i < 8; ++i) result.lane[i] = function(i);
  return result;
}
inline F8 load8(const float* p) {
  return lanes8([&](int i) { return p[i]; });
}
inline void store8(float* p, F8 a) {
  for (int i = 0; i < 8; ++i) p[i] = a.lane[i];
}
inline F8 set8(float value) {
  return lanes8([&](int) { return value; });
}
inline F8 add8(F8 a, F8 b) {
  return lanes8([&](int i) { return a.lane[i] + b.lane[i]; });
}
inline F8 mul8(F8 a, F8 b) {
  return lanes8([&](int i) { return a.lane[i] * b.lane[i]; });
}
inline F8 fma8(F8 a, F8 b, F8 c) {  // a * b + c
  return lanes8([&](int i) { return a.lane[i] * b.lane[i] + c.lane[i]; });
}
inline F8 subtract_product8(F8 a, F8 b, F8 c) {  // c - a * b
  return lanes8([&](int i) { return c.lane[i] - a.lane[i] * b.lane[i]; });
}
inline float sum8(F8 a) {
  float quarter[4];
  for (int i = 0; i < 4; ++i) quarter[i] = a.lane[i] + a.lane[i + 4];
  return (quarter[0] + quarter[2]) + (quarter[1] + quarter[3]);
}
inline F8 load8_f16(const std::uint8_t* p) {
  return lanes8([&](int i) { return half_to_float(load16(p + 2 * i)); });
}
inline F8 load8_bf16(const std::uint8_t* p) {
  return lanes8([&](int i) { return __builtin_bit_cast(float, static_cast<std::uint32_t>(load16(p + 2 * i)) << 16); });
}
// A form of eight floats that gives each of them in all lanes.
using Spread8 = F8;
inline Spread8 spread8(F8 a) {
  return a;
}
template <int kIndex>
inline F8 lane_of(const Spread8& a) {
  return set8(a.lane[kIndex]);
}
template <int kIndex>
inline F8 lane_of_each_half(F8 a) {
  return lanes8([&](int i) { return a.lane[i / 4 * 4 + kIndex]; });
}
inline F8 bytes_to_float8(std::uint64_t signed_bytes) {
  return lanes8([&](int i) { return static_cast<float>(static_cast<std::int8_t>(signed_bytes >> (8 * i))); });
}
inline float half(const std::uint8_t* p) {
  return half_to_float(load16(p));
}
// Eight f16 numbers that lie `stride` bytes apart; where there are but `count`, the last one again.
template <typename Order>
inline F8 gather_f16(const std::uint8_t* p, std::size_t stride, int count, Order) {
  const auto last = static_cast<std::size_t>(count - 1);
  return lanes8([&](int i) {
    const std::size_t index = Order::at(static_cast<std::size_t>(i));
    return half(p + (index < last ? index : last) * stride);
  });
}
inline B32 as_bytes(F8 a) {
  return __builtin_bit_cast(B32, a);
}

// Row products: eight partial sums whose total is the product of 32 weights and 32 activations.
using I8 = F8;  // whole numbers below 2^24: exact as floats

template <int kBits>  // unsigned weights below 2^kBits; 8: signed ones
inline I8 dot32(B32 w, B32 x) {
  return lanes8([&](int i) {
    std::int32_t total = 0;
    for (int j = 4 * i; j < 4 * i + 4; ++j) {
      const int weight = kBits == 8 ? static_cast<std::int8_t>(w.byte[j]) : w.byte[j];
      total += weight * static_cast<std::int8_t>(x.byte[j]);
    }
    return static_cast<float>(total);
  });
}
// The same of two pairs added up: each half of the lanes has the sum of its half of w0 x0 and its half of w1 x1.
template <int kBits>
inline I8 dot_pair(B32 w0, B32 x0, B32 w1, B32 x1) {
  return add8(dot32<kBits>(w0, x0), dot32<kBits>(w1, x1));
}
// Whole-number scales of 16 groups of 16.
struct S16 {
  std::int16_t scale[16];
};
inline S16 load_scales(const std::uint64_t (&signed_bytes)[2]) {
  S16 result;
  for (int i = 0; i < 16; ++i) result.scale[i] = static_cast<std::int8_t>(signed_bytes[i / 8] >> (8 * (i % 8)));
  return result;
}
inline void store_scales(std::int16_t* p, const S16& scales) {
  __builtin_memcpy(p, scales.scale, sizeof(scales.scale));
}
template <int kGroup>  // of 32; its halves have scales 2 * kGroup and 2 * kGroup + 1
inline I8 dot32_scaled(B32 w, B32 x, const S16& scales) {
  I8 result = dot32<6>(w, x);
  for (int i = 0; i < 8; ++i) result.lane[i] *= scales.scale[2 * kGroup + i / 4];
  return result;
}
inline F8 to_float8(I8 a) {
  return a;
}

// Panel products: lane r of a W holds four consecutive weights of row r, an X the same four activations in each lane.
struct W {
  std::uint8_t byte[4 * kLanes];
};
struct X {
  std::int8_t byte[4];
};
struct I {
  std::int32_t lane[kLanes];
};
using P = I;  // products before they are widened

template <int kBits>
inline constexpr int kChain = 8;  // products that may be added up in a P

template <int kBits>
inline W load_weights(const std::uint8_t* p) {
  W result;
  __builtin_memcpy(result.byte, p, sizeof(result));
  return result;
}
inline X broadcast4(const std::uint8_t* p) {
  X result;
  __builtin_memcpy(result.byte, p, 4);
  return result;
}
template <int kBits>
inline P products(W w, X x, P base) {
  for (int i = 0; i < kLanes; ++i) {
    for (int j = 0; j < 4; ++j) base.lane[i] += w.byte[4 * i + j] * x.byte[j];
  }
  return base;
}
template <int kBits>
inline P products(W w, X x) {
  return products<kBits>(w, x, P{});
}
template <int>
inline I widen(P p) {
  return p;
}
inline I widen_scaled(P p, const std::uint8_t* scales) {  // scales: per lane an i16, twice
  for (int i = 0; i < kLanes; ++i) p.lane[i] *= static_cast<std::int16_t>(load16(scales + 4 * i));
  return p;
}
inline I add(I a, I b) {
  for (int i = 0; i < kLanes; ++i) a.lane[i] += b.lane[i];
  return a;
}
inline F to_float(I a) {
  return lanes([&](int i) { return static_cast<float>(a.lane[i]); });
}

}  // namespace pastkv::engine::PASTKV_KERNELS
