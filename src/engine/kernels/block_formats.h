// The block formats of GGUF as kernels see them: groups of 32 unpacked weights with a scale and a minimum each,
// weight = scale * q - minimum, eight groups at a time. Layouts: see tensor/codec.h.
//
// A format has
//   kBits            q is unsigned and below 2^kBits; 8: q is signed and there is no minimum
//   kGroups, kBytes  groups and bytes of a block
//   unpack<g>(block) the 32 q of group g
//   kPaired          two blocks can be unpacked together, by unpack_pair
// and either (kHalves false)
//   scales(row, group, count, order)  of `count` groups (8 when a block has 8) from `group` on
//   scale(block)                      of a block of one group
// or, when each half of a group has a scale of its own (kHalves true),
//   scales(block)                     of its 8 groups
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/simd.h"

namespace pastkv::engine::PASTKV_KERNELS {

struct Scales {
  F8 scale, minimum;
};
struct BlockScale {
  float scale, minimum;
};
struct HalfScales {
  S16 scale;
  F8 minimum[2];
  float super;  // what `scale` is to be multiplied by
};

struct BytePair {
  B32 first, last;
};

alignas(16) inline constexpr std::int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                           1,    13,   25,  38,  53,  69,  89,  113};

inline std::uint32_t load_u32(const std::uint8_t* p) {
  std::uint32_t value;
  __builtin_memcpy(&value, p, sizeof(value));
  return value;
}

inline std::uint64_t load_u64(const std::uint8_t* p) {
  std::uint64_t value;
  __builtin_memcpy(&value, p, sizeof(value));
  return value;
}
inline F8 floats8(std::uint64_t signed_bytes, float factor) {
  return mul8(bytes_to_float8(signed_bytes), set8(factor));
}

// Blocks of one group: an f16 scale first, then perhaps an f16 minimum (to be added), four bytes of fifth bits, and the
// quants; element i is the low nibble of byte i and element i + 16 its high one. kOffset is what a quant has too much.
template <int kQuantBits, int kBlockBytes, int kOffset, int kMinimumAt, int kFifthBitsAt, int kQuantsAt>
struct SmallBlock {
  static constexpr bool kHalves = false;
  static constexpr bool kPaired = true;
  static constexpr int kBits = kQuantBits, kGroups = 1, kBytes = kBlockBytes;

  template <typename Order>
  static Scales scales(const std::uint8_t* row, std::int64_t group, int count, Order order) {
    const std::uint8_t* first = row + group * kBytes;
    const F8 d = gather_f16(first, kBytes, count, order);
    if constexpr (kMinimumAt == 0) return {d, mul8(d, set8(kOffset))};
    return {d, mul8(gather_f16(first + kMinimumAt, kBytes, count, order), set8(-1.0F))};
  }
  static BlockScale scale(const std::uint8_t* block) {
    const float d = half(block);
    return {d, kMinimumAt == 0 ? d * kOffset : -half(block + kMinimumAt)};
  }
  template <int>
  static B32 unpack(const std::uint8_t* block) {
    const B32 q = nibbles(block + kQuantsAt);
    if constexpr (kBits == 8) return lookup(q, kIq4Values);
    if constexpr (kFifthBitsAt == 0) return q;
    return either(q, spread(load_u32(block + kFifthBitsAt), 16));
  }
  // The first 16 quants of two blocks, and their last 16.
  static BytePair unpack_pair(const std::uint8_t* a, const std::uint8_t* b) {
    const B32 both = load_two(a + kQuantsAt, b + kQuantsAt);
    const BytePair q = {shift_right<0>(both, 15), shift_right<4>(both, 15)};
    if constexpr (kBits == 8) return {lookup(q.first, kIq4Values), lookup(q.last, kIq4Values)};
    if constexpr (kFifthBitsAt == 0) return q;
    const std::uint32_t bits_a = load_u32(a + kFifthBitsAt), bits_b = load_u32(b + kFifthBitsAt);
    return {either(q.first, spread((bits_a & 0xFFFFU) | bits_b << 16, 16)),
            either(q.last, spread(bits_a >> 16 | (bits_b & 0xFFFF0000U), 16))};
  }
};

using Q4_0 = SmallBlock<4, 18, 8, 0, 0, 2>;
using Q4_1 = SmallBlock<4, 20, 0, 2, 0, 4>;
using Q5_0 = SmallBlock<5, 22, 16, 0, 2, 6>;
using Q5_1 = SmallBlock<5, 24, 0, 2, 4, 8>;
using IQ4_NL = SmallBlock<8, 18, 0, 0, 0, 2>;

struct Q8_0 {
  static constexpr bool kHalves = false;
  static constexpr bool kPaired = false;
  static constexpr int kBits = 8, kGroups = 1, kBytes = 34;
  template <typename Order>
  static Scales scales(const std::uint8_t* row, std::int64_t group, int count, Order order) {
    return {gather_f16(row + group * kBytes, kBytes, count, order), set8(0.0F)};
  }
  static BlockScale scale(const std::uint8_t* block) { return {half(block), 0.0F}; }
  template <int>
  static B32 unpack(const std::uint8_t* block) {
    return load32(block + 2);
  }
};

// The eight scales and eight minima of 6 bits that Q4_K and Q5_K pack into 12 bytes, times d and dmin.
inline Scales six_bit_scales(const std::uint8_t* block) {
  const std::uint32_t a = load_u32(block + 4);
  const std::uint32_t b = load_u32(block + 8);
  const std::uint32_t c = load_u32(block + 12);
  const std::uint64_t scale_high = (c & 0x0F0F0F0FU) | (a >> 2 & 0x30303030U);
  const std::uint64_t minimum_high = (c >> 4 & 0x0F0F0F0FU) | (b >> 2 & 0x30303030U);
  return {floats8((a & 0x3F3F3F3FU) | scale_high << 32, half(block)),
          floats8((b & 0x3F3F3F3FU) | minimum_high << 32, half(block + 2))};
}

struct Q4_K {
  static constexpr bool kPaired = false;
  static constexpr bool kHalves = false;
  static constexpr int kBits = 4, kGroups = 8, kBytes = 144;
  template <typename Order>
  static Scales scales(const std::uint8_t* row, std::int64_t group, int, Order) {
    return six_bit_scales(row + group / 8 * kBytes);
  }
  template <int kGroup>
  static B32 unpack(const std::uint8_t* block) {
    return shift_right<kGroup % 2 * 4>(load32(block + 16 + kGroup / 2 * 32), 15);
  }
};

struct Q5_K {
  static constexpr bool kPaired = false;
  static constexpr bool kHalves = false;
  static constexpr int kBits = 5, kGroups = 8, kBytes = 176;
  template <typename Order>
  static Scales scales(const std::uint8_t* row, std::int64_t group, int, Order) {
    return six_bit_scales(row + group / 8 * kBytes);
  }
  template <int kGroup>
  static B32 unpack(const std::uint8_t* block) {
    const B32 low = shift_right<kGroup % 2 * 4>(load32(block + 48 + kGroup / 2 * 32), 15);
    const B32 high = load32(block + 16);
    if constexpr (kGroup < 4) return either(low, shift_left<4 - kGroup>(high, 16));
    return either(low, shift_right < kGroup<4 ? 0 : kGroup - 4>(high, 16));
  }
};

struct Q2_K {
  static constexpr bool kPaired = false;
  static constexpr bool kHalves = true;
  static constexpr int kBits = 2, kGroups = 8, kBytes = 84;
  static HalfScales scales(const std::uint8_t* block) {
    const float minimum = half(block + 82);
    const std::uint64_t packed[2] = {load_u64(block), load_u64(block + 8)};
    std::uint64_t low[2], high[2];
    for (int i = 0; i < 2; ++i) {
      low[i] = packed[i] & 0x0F0F0F0F0F0F0F0FU;
      high[i] = (packed[i] >> 4) & 0x0F0F0F0F0F0F0F0FU;
    }
    return {load_scales(low), {floats8(high[0], minimum), floats8(high[1], minimum)}, half(block + 80)};
  }
  template <int kGroup>
  static B32 unpack(const std::uint8_t* block) {
    return shift_right<kGroup % 4 * 2>(load32(block + 16 + kGroup / 4 * 32), 3);
  }
};

struct Q3_K {
  static constexpr bool kPaired = false;
  static constexpr bool kHalves = true;
  static constexpr int kBits = 3, kGroups = 8, kBytes = 110;
  static HalfScales scales(const std::uint8_t* block) {
    const std::uint64_t low = load_u64(block + 96);
    const std::uint64_t high = load_u32(block + 104);
    const std::uint64_t high_first = (high | (high >> 2 << 32)) & 0x0303030303030303U;
    const std::uint64_t high_last = (high >> 4 | (high >> 6 << 32)) & 0x0303030303030303U;
    const std::uint64_t packed[2] = {(low & 0x0F0F0F0F0F0F0F0FU) | high_first << 4,
                                     (low >> 4 & 0x0F0F0F0F0F0F0F0FU) | high_last << 4};
    std::uint64_t scales[2];
    for (int i = 0; i < 2; ++i) {  // minus 32 in each byte, with no borrow from the next
      scales[i] = ((packed[i] | 0x8080808080808080U) - 0x2020202020202020U) ^ 0x8080808080808080U;
    }
    const float super = half(block + 108);
    return {load_scales(scales), {floats8(scales[0], 4.0F * super), floats8(scales[1], 4.0F * super)}, super};
  }
  template <int kGroup>
  static B32 unpack(const std::uint8_t* block) {
    const B32 low = shift_right<kGroup % 4 * 2>(load32(block + 32 + kGroup / 4 * 32), 3);
    const B32 high = load32(block);
    if constexpr (kGroup < 2) return either(low, shift_left<2 - kGroup>(high, 4));
    return either(low, shift_right < kGroup<2 ? 0 : kGroup - 2>(high, 4));
  }
};

struct Q6_K {
  static constexpr bool kPaired = false;
  static constexpr bool kHalves = true;
  static constexpr int kBits = 6, kGroups = 8, kBytes = 210;
  static HalfScales scales(const std::uint8_t* block) {
    const std::uint64_t scales[2] = {load_u64(block + 192), load_u64(block + 200)};
    const float super = half(block + 208);
    return {load_scales(scales), {floats8(scales[0], 32.0F * super), floats8(scales[1], 32.0F * super)}, super};
  }
  template <int kGroup>
  static B32 unpack(const std::uint8_t* block) {
    constexpr int kHalf = kGroup / 4, kQuarter = kGroup % 4;
    const B32 low = shift_right<kQuarter / 2 * 4>(load32(block + kHalf * 64 + kQuarter % 2 * 32), 15);
    const B32 high = load32(block + 128 + kHalf * 32);
    if constexpr (kQuarter < 2) return either(low, shift_left<4 - 2 * (kQuarter < 2 ? kQuarter : 0)>(high, 0x30));
    if constexpr (kQuarter == 2) return either(low, shift_right<0>(high, 0x30));
    return either(low, shift_right<2>(high, 0x30));
  }
};

}  // namespace pastkv::engine::PASTKV_KERNELS
