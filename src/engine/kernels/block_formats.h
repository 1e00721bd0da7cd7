// The block formats of GGUF as kernels see them: groups of 32 unpacked weights with a scale and a minimum each,
// weight = scale * q - minimum, eight groups at a time. Layouts: see tensor/codec.h.
//
// A format has
//   kBits            q is unsigned and below 2^kBits; 8: q is signed and there is no minimum
//   kGroups, kBytes  groups and bytes of a block
//   unpack<g>(block) the 32 q of group g
// and either (kHalves false)
//   scales(row, group, count)  of `count` groups (8 when a block has 8) from `group` on
// or, when each half of a group has a scale of its own (kHalves true),
//   scales(block)              of its 8 groups.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/simd.h"

namespace pastkv::engine::PASTKV_KERNELS {

struct Scales {
  F8 scale, minimum;
};
struct HalfScales {
  std::int16_t scale[16];  // to be multiplied by `super`
  float minimum[16];
  float super;
};

inline float scalar_f16(const std::uint8_t* p) {
  float first[8];
  store8(first, gather_f16(p, 0, 1));
  return first[0];
}

struct Q4_0 {
  static constexpr bool kHalves = false;
  static constexpr int kBits = 4, kGroups = 1, kBytes = 18;
  static Scales scales(const std::uint8_t* row, std::int64_t group, int count) {
    const F8 d = gather_f16(row + group * kBytes, kBytes, count);
    return {d, mul8(d, set8(8.0F))};
  }
  template <int>
  static B32 unpack(const std::uint8_t* block) {
    return nibbles(block + 2);
  }
};

struct Q4_1 {
  static constexpr bool kHalves = false;
  static constexpr int kBits = 4, kGroups = 1, kBytes = 20;
  static Scales scales(const std::uint8_t* row, std::int64_t group, int count) {
    const std::uint8_t* first = row + group * kBytes;
    return {gather_f16(first, kBytes, count), mul8(gather_f16(first + 2, kBytes, count), set8(-1.0F))};
  }
  template <int>
  static B32 unpack(const std::uint8_t* block) {
    return nibbles(block + 4);
  }
};

inline std::uint32_t load_u32(const std::uint8_t* p) {
  std::uint32_t value;
  __builtin_memcpy(&value, p, sizeof(value));
  return value;
}

struct Q5_0 {
  static constexpr bool kHalves = false;
  static constexpr int kBits = 5, kGroups = 1, kBytes = 22;
  static Scales scales(const std::uint8_t* row, std::int64_t group, int count) {
    const F8 d = gather_f16(row + group * kBytes, kBytes, count);
    return {d, mul8(d, set8(16.0F))};
  }
  template <int>
  static B32 unpack(const std::uint8_t* block) {
    return either(nibbles(block + 6), spread(load_u32(block + 2), 16));
  }
};

struct Q5_1 {
  static constexpr bool kHalves = false;
  static constexpr int kBits = 5, kGroups = 1, kBytes = 24;
  static Scales scales(const std::uint8_t* row, std::int64_t group, int count) {
    const std::uint8_t* first = row + group * kBytes;
    return {gather_f16(first, kBytes, count), mul8(gather_f16(first + 2, kBytes, count), set8(-1.0F))};
  }
  template <int>
  static B32 unpack(const std::uint8_t* block) {
    return either(nibbles(block + 8), spread(load_u32(block + 4), 16));
  }
};

struct Q8_0 {
  static constexpr bool kHalves = false;
  static constexpr int kBits = 8, kGroups = 1, kBytes = 34;
  static Scales scales(const std::uint8_t* row, std::int64_t group, int count) {
    return {gather_f16(row + group * kBytes, kBytes, count), set8(0.0F)};
  }
  template <int>
  static B32 unpack(const std::uint8_t* block) {
    return load32(block + 2);
  }
};

struct IQ4_NL {
  static constexpr bool kHalves = false;
  static constexpr int kBits = 8, kGroups = 1, kBytes = 18;
  static Scales scales(const std::uint8_t* row, std::int64_t group, int count) {
    return {gather_f16(row + group * kBytes, kBytes, count), set8(0.0F)};
  }
  template <int>
  static B32 unpack(const std::uint8_t* block) {
    alignas(16) static constexpr std::int8_t kTable[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                           1,    13,   25,  38,  53,  69,  89,  113};
    return lookup(nibbles(block + 2), kTable);
  }
};

// The eight scales and eight minima of 6 bits that Q4_K and Q5_K pack into 12 bytes, times d and dmin.
inline Scales six_bit_scales(const std::uint8_t* block) {
  const std::uint32_t a = load_u32(block + 4);
  const std::uint32_t b = load_u32(block + 8);
  const std::uint32_t c = load_u32(block + 12);
  const std::uint32_t words[4] = {a & 0x3F3F3F3FU, (c & 0x0F0F0F0FU) | ((a >> 2) & 0x30303030U),  // scales
                                  b & 0x3F3F3F3FU, ((c >> 4) & 0x0F0F0F0FU) | ((b >> 2) & 0x30303030U)};
  std::uint8_t unpacked[16];
  __builtin_memcpy(unpacked, words, sizeof(words));
  return {mul8(load8_u8(unpacked), set8(scalar_f16(block))), mul8(load8_u8(unpacked + 8), set8(scalar_f16(block + 2)))};
}

struct Q4_K {
  static constexpr bool kHalves = false;
  static constexpr int kBits = 4, kGroups = 8, kBytes = 144;
  static Scales scales(const std::uint8_t* row, std::int64_t group, int) {
    return six_bit_scales(row + group / 8 * kBytes);
  }
  template <int kGroup>
  static B32 unpack(const std::uint8_t* block) {
    return shift_right<kGroup % 2 * 4>(load32(block + 16 + kGroup / 2 * 32), 15);
  }
};

struct Q5_K {
  static constexpr bool kHalves = false;
  static constexpr int kBits = 5, kGroups = 8, kBytes = 176;
  static Scales scales(const std::uint8_t* row, std::int64_t group, int) {
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
  static constexpr bool kHalves = true;
  static constexpr int kBits = 2, kGroups = 8, kBytes = 84;
  static HalfScales scales(const std::uint8_t* block) {
    HalfScales result;
    result.super = scalar_f16(block + 80);
    const float minimum = scalar_f16(block + 82);
    for (int i = 0; i < 16; ++i) {
      result.scale[i] = static_cast<std::int16_t>(block[i] & 15);
      result.minimum[i] = minimum * static_cast<float>(block[i] >> 4);
    }
    return result;
  }
  template <int kGroup>
  static B32 unpack(const std::uint8_t* block) {
    return shift_right<kGroup % 4 * 2>(load32(block + 16 + kGroup / 4 * 32), 3);
  }
};

struct Q3_K {
  static constexpr bool kHalves = true;
  static constexpr int kBits = 3, kGroups = 8, kBytes = 110;
  static HalfScales scales(const std::uint8_t* block) {
    HalfScales result;
    const std::uint8_t* packed = block + 96;
    result.super = scalar_f16(block + 108);
    for (int i = 0; i < 16; ++i) {
      const int low = i < 8 ? packed[i] & 15 : packed[i - 8] >> 4;
      const int high = (packed[8 + i % 4] >> (i / 4 * 2)) & 3;
      result.scale[i] = static_cast<std::int16_t>((low | (high << 4)) - 32);
      result.minimum[i] = result.super * static_cast<float>(4 * result.scale[i]);
    }
    return result;
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
  static constexpr bool kHalves = true;
  static constexpr int kBits = 6, kGroups = 8, kBytes = 210;
  static HalfScales scales(const std::uint8_t* block) {
    HalfScales result;
    result.super = scalar_f16(block + 208);
    for (int i = 0; i < 16; ++i) {
      result.scale[i] = static_cast<std::int8_t>(block[192 + i]);
      result.minimum[i] = result.super * static_cast<float>(32 * result.scale[i]);
    }
    return result;
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
