// Encoders of the super-blocks of 256: each group of 16 or 32 numbers has a scale of its own (and a minimum), which is
// itself a small integer under the block's. What makes their quality is the choice of a group's scale: several are
// tried, each improved to the least-squares optimum for the levels it gives, and the one with the least error stays.
// Errors count more where numbers are large, since those meet the larger part of a dot product.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "tensor/block_codec.h"
#include "tensor/codec.h"

namespace pastkv::tensor {
namespace {

constexpr int kElements = 256;
constexpr int kLongestGroup = 32;

using Levels = std::array<std::uint8_t, kElements>;

void store_f16(float value, std::uint8_t* bytes) {
  const std::uint16_t bits = f32_to_f16(value);
  std::memcpy(bytes, &bits, sizeof bits);
}

// As a reader will see it.
float rounded_f16(float value) {
  return f16_to_f32(f32_to_f16(value));
}

std::uint8_t to_byte(float level) {
  return static_cast<std::uint8_t>(level);
}

float inverse(float scale) {
  return scale == 0.0F ? 0.0F : 1.0F / scale;
}

// The nearest level; what is no number lands on 0.
float level_of(float value, float highest) {
  const float positive = value > 0.0F ? value : 0.0F;
  const float shifted = (positive < highest ? positive : highest) + 0.5F;  // cut off, a processor's fastest rounding
  return static_cast<float>(static_cast<int>(shifted));
}

// The sum of term(0) to term(count - 1), in eight lanes: so that a processor may add several at a time, and any
// processor gives the same bits.
template <typename Term>
float sum_of(int count, const Term& term) {
  constexpr int kLanes = 8;
  float lanes[kLanes] = {};
  for (int j = 0; j < count; j += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += term(j + lane);
  }
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

int small_integer(float value, int lowest, int highest) {
  if (!(value > static_cast<float>(lowest))) return lowest;
  if (value >= static_cast<float>(highest)) return highest;
  return static_cast<int>(std::lround(value));
}

float root_mean_square(const float* in, int count) {
  return std::sqrt(sum_of(count, [in](int j) { return in[j] * in[j]; }) / static_cast<float>(count));
}

// x is written as scale * level - minimum, both not below 0.
struct Affine {
  float scale = 0.0F;
  float minimum = 0.0F;
};

struct Sums {
  float w = 0, wl = 0, wll = 0, wx = 0, wlx = 0;  // of weights, levels and numbers
};

Affine best_affine(const Sums& s) {
  const float determinant = s.w * s.wll - s.wl * s.wl;
  if (determinant > 0.0F) {
    const Affine fit{.scale = (s.w * s.wlx - s.wl * s.wx) / determinant,
                     .minimum = (s.wl * s.wlx - s.wll * s.wx) / determinant};
    if (fit.minimum >= 0.0F) return fit;
  }
  return {.scale = s.wll > 0.0F ? s.wlx / s.wll : 0.0F, .minimum = 0.0F};
}

// Of `count` numbers, with levels 0 to `highest`.
Affine search_affine(const float* in, const float* weights, int count, float highest) {
  constexpr int kTries = 24;
  float smallest = std::min(0.0F, in[0]);
  float largest = in[0];
  for (int j = 1; j < count; ++j) {
    smallest = std::min(smallest, in[j]);
    largest = std::max(largest, in[j]);
  }
  const float range = largest - smallest;
  if (!(range > 0.0F) || !std::isfinite(range))
    return {.scale = 0.0F, .minimum = std::isfinite(smallest) ? -smallest : 0};
  Affine best{.scale = range / highest, .minimum = -smallest};
  Sums sums;
  sums.w = sum_of(count, [&](int j) { return weights[j]; });
  sums.wx = sum_of(count, [&](int j) { return weights[j] * in[j]; });
  float least = INFINITY;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const float factor = (highest - 1.0F + 0.1F * static_cast<float>(attempt)) / range;
    float levels[kLongestGroup];
    float weighted[kLongestGroup];
    for (int j = 0; j < count; ++j) {
      levels[j] = level_of((in[j] - smallest) * factor, highest);
      weighted[j] = weights[j] * levels[j];
    }
    sums.wl = sum_of(count, [&](int j) { return weighted[j]; });
    sums.wll = sum_of(count, [&](int j) { return weighted[j] * levels[j]; });
    sums.wlx = sum_of(count, [&](int j) { return weighted[j] * in[j]; });
    const Affine fit = best_affine(sums);
    const float error = sum_of(count, [&](int j) {
      const float difference = fit.scale * levels[j] - fit.minimum - in[j];
      return weights[j] * difference * difference;
    });
    if (error < least && fit.scale > 0.0F) {
      least = error;
      best = fit;
    }
  }
  return best;
}

struct AffineBlock {
  float scale = 0.0F;    // of the groups' scales
  float minimum = 0.0F;  // of the groups' minima
  std::array<int, 16> scales{};
  std::array<int, 16> minima{};
  Levels levels{};
};

// Levels of a group under a scale and a minimum as a reader computes them; gives the weighted error.
float fill_levels(const float* in, const float* weights, int count, float highest, Affine affine, float* levels) {
  const float factor = inverse(affine.scale);
  for (int j = 0; j < count; ++j) levels[j] = level_of((in[j] + affine.minimum) * factor, highest);
  return sum_of(count, [&](int j) {
    const float difference = affine.scale * levels[j] - affine.minimum - in[j];
    return weights[j] * difference * difference;
  });
}

// The integers for one group: those next to the wanted scale and minimum that give the least error.
void settle_group(const float* in, const float* weights, int count, float highest, int limit, Affine wanted, int group,
                  AffineBlock& block) {
  const int scale = small_integer(wanted.scale * inverse(block.scale), 0, limit);
  const int minimum = small_integer(wanted.minimum * inverse(block.minimum), 0, limit);
  float least = INFINITY;
  for (int s = std::max(scale - 1, 0); s <= std::min(scale + 1, limit); ++s) {
    for (int m = std::max(minimum - 1, 0); m <= std::min(minimum + 1, limit); ++m) {
      float levels[kLongestGroup];
      const Affine tried{.scale = block.scale * static_cast<float>(s),
                         .minimum = block.minimum * static_cast<float>(m)};
      const float error = fill_levels(in, weights, count, highest, tried, levels);
      if (!(error < least) && least != INFINITY) continue;
      least = error;
      block.scales[static_cast<std::size_t>(group)] = s;
      block.minima[static_cast<std::size_t>(group)] = m;
      std::transform(levels, levels + count, block.levels.data() + group * count, to_byte);
    }
  }
}

// Groups of `count`, levels 0 to `highest`, integers for scales and minima 0 to `limit`.
AffineBlock encode_affine(const float* in, int count, int highest, int limit) {
  AffineBlock block;
  std::array<Affine, 16> wanted{};
  float weights[kElements];
  const int groups = kElements / count;
  for (int group = 0; group < groups; ++group) {
    const float* numbers = in + group * count;
    float* own = weights + group * count;
    const float usual = root_mean_square(numbers, count);
    for (int j = 0; j < count; ++j) own[j] = usual + std::fabs(numbers[j]);
    Affine& affine = wanted[static_cast<std::size_t>(group)];
    affine = search_affine(numbers, own, count, static_cast<float>(highest));
    block.scale = std::max(block.scale, affine.scale);
    block.minimum = std::max(block.minimum, affine.minimum);
  }
  block.scale = rounded_f16(block.scale / static_cast<float>(limit));
  block.minimum = rounded_f16(block.minimum / static_cast<float>(limit));
  for (int group = 0; group < groups; ++group) {
    settle_group(in + group * count, weights + group * count, count, static_cast<float>(highest), limit,
                 wanted[static_cast<std::size_t>(group)], group, block);
  }
  return block;
}

// Eight scales and eight minima of 6 bits each, in 12 bytes.
void pack_scales(const AffineBlock& block, std::uint8_t* packed) {
  std::fill_n(packed, 12, std::uint8_t{0});
  for (int group = 0; group < 8; ++group) {
    const int scale = block.scales[static_cast<std::size_t>(group)];
    const int minimum = block.minima[static_cast<std::size_t>(group)];
    if (group < 4) {
      packed[group] = static_cast<std::uint8_t>(packed[group] | scale);
      packed[group + 4] = static_cast<std::uint8_t>(packed[group + 4] | minimum);
    } else {
      packed[group + 4] = static_cast<std::uint8_t>((scale & 15) | ((minimum & 15) << 4));
      packed[group - 4] = static_cast<std::uint8_t>(packed[group - 4] | ((scale >> 4) << 6));
      packed[group] = static_cast<std::uint8_t>(packed[group] | ((minimum >> 4) << 6));
    }
  }
}

// Chunks of 64 share 32 bytes, the first half in the low nibbles.
void pack_nibbles(const Levels& levels, std::uint8_t* bytes) {
  for (int chunk = 0; chunk < 4; ++chunk) {
    const std::uint8_t* from = levels.data() + chunk * 64;
    for (int j = 0; j < 32; ++j) {
      bytes[chunk * 32 + j] = static_cast<std::uint8_t>((from[j] & 15) | ((from[j + 32] & 15) << 4));
    }
  }
}

// Halves of 128 share 32 bytes, each run of 32 has its own pair of bits, of which `levels` gives those from `shift` on.
void pack_pairs(const Levels& levels, int shift, std::uint8_t* bytes) {
  std::fill_n(bytes, 64, std::uint8_t{0});
  for (int e = 0; e < kElements; ++e) {
    std::uint8_t& byte = bytes[e / 128 * 32 + e % 32];
    byte =
        static_cast<std::uint8_t>(byte | (((levels[static_cast<std::size_t>(e)] >> shift) & 3) << (e % 128 / 32 * 2)));
  }
}

void encode_q2_k(const float* in, std::uint8_t* block) {
  const AffineBlock encoded = encode_affine(in, 16, 3, 15);
  for (std::size_t group = 0; group < 16; ++group) {
    block[group] = static_cast<std::uint8_t>(encoded.scales[group] | (encoded.minima[group] << 4));
  }
  pack_pairs(encoded.levels, 0, block + 16);
  store_f16(encoded.scale, block + 80);
  store_f16(encoded.minimum, block + 82);
}

void encode_q4_k(const float* in, std::uint8_t* block) {
  const AffineBlock encoded = encode_affine(in, 32, 15, 63);
  store_f16(encoded.scale, block);
  store_f16(encoded.minimum, block + 2);
  pack_scales(encoded, block + 4);
  pack_nibbles(encoded.levels, block + 16);
}

void encode_q5_k(const float* in, std::uint8_t* block) {
  const AffineBlock encoded = encode_affine(in, 32, 31, 63);
  store_f16(encoded.scale, block);
  store_f16(encoded.minimum, block + 2);
  pack_scales(encoded, block + 4);
  std::uint8_t* high = block + 16;
  std::fill_n(high, 32, std::uint8_t{0});
  for (int e = 0; e < kElements; ++e) {
    const int fifth = encoded.levels[static_cast<std::size_t>(e)] >> 4;
    high[e % 32] = static_cast<std::uint8_t>(high[e % 32] | (fifth << (e / 32)));
  }
  pack_nibbles(encoded.levels, block + 48);
}

// x is written as scale * (level - half). The scale may be below 0: then the extreme number meets the lowest level.
float search_symmetric(const float* in, const float* weights, int count, float half) {
  constexpr int kTries = 19;
  constexpr int kMiddle = kTries / 2;
  float extreme = 0.0F;
  for (int j = 0; j < count; ++j) {
    if (std::fabs(in[j]) > std::fabs(extreme)) extreme = in[j];
  }
  if (extreme == 0.0F || !std::isfinite(extreme)) return 0.0F;
  float best = -extreme / half;
  float most = -INFINITY;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const float factor = -(half + 0.1F * static_cast<float>(attempt - kMiddle)) / extreme;
    float levels[kLongestGroup];
    for (int j = 0; j < count; ++j) levels[j] = level_of(in[j] * factor + half, 2.0F * half - 1.0F) - half;
    const float wlx = sum_of(count, [&](int j) { return weights[j] * levels[j] * in[j]; });
    const float wll = sum_of(count, [&](int j) { return weights[j] * levels[j] * levels[j]; });
    // With the best scale for these levels, wlx / wll, the error is a constant less this.
    const float gain = wll > 0.0F ? wlx * wlx / wll : -INFINITY;
    if (gain > most) {
      most = gain;
      best = wlx / wll;
    }
  }
  return best;
}

struct SymmetricBlock {
  float scale = 0.0F;  // of the groups' scales
  std::array<int, 16> scales{};
  Levels levels{};
};

// Groups of 16, levels 0 to 2 * half - 1, integers for scales -lowest to lowest - 1.
SymmetricBlock encode_symmetric(const float* in, int half, int lowest) {
  constexpr int kGroup = 16;
  SymmetricBlock block;
  std::array<float, 16> wanted{};
  float weights[kElements];
  for (int j = 0; j < kElements; ++j) weights[j] = in[j] * in[j];
  float extreme = 0.0F;
  for (int group = 0; group < kElements / kGroup; ++group) {
    const float scale =
        search_symmetric(in + group * kGroup, weights + group * kGroup, kGroup, static_cast<float>(half));
    wanted[static_cast<std::size_t>(group)] = scale;
    if (std::fabs(scale) > std::fabs(extreme)) extreme = scale;
  }
  block.scale = rounded_f16(extreme / static_cast<float>(-lowest));
  for (int group = 0; group < kElements / kGroup; ++group) {
    const auto at = static_cast<std::size_t>(group);
    const int middle = small_integer(wanted[at] * inverse(block.scale), -lowest, lowest - 1);
    float least = INFINITY;
    for (int s = std::max(middle - 1, -lowest); s <= std::min(middle + 1, lowest - 1); ++s) {
      const float scale = block.scale * static_cast<float>(s);
      const float factor = inverse(scale);
      const float* numbers = in + group * kGroup;
      const float* own = weights + group * kGroup;
      float levels[kGroup];
      for (int j = 0; j < kGroup; ++j) {
        levels[j] = level_of(numbers[j] * factor + static_cast<float>(half), static_cast<float>(2 * half - 1));
      }
      const float error = sum_of(kGroup, [&](int j) {
        const float difference = scale * (levels[j] - static_cast<float>(half)) - numbers[j];
        return own[j] * difference * difference;
      });
      if (!(error < least) && least != INFINITY) continue;
      least = error;
      block.scales[at] = s;
      std::transform(levels, levels + kGroup, block.levels.data() + group * kGroup, to_byte);
    }
  }
  return block;
}

void encode_q3_k(const float* in, std::uint8_t* block) {
  const SymmetricBlock encoded = encode_symmetric(in, 4, 32);
  std::fill_n(block, 32, std::uint8_t{0});
  for (int e = 0; e < kElements; ++e) {
    const int third = encoded.levels[static_cast<std::size_t>(e)] >> 2;
    block[e % 32] = static_cast<std::uint8_t>(block[e % 32] | (third << (e / 32)));
  }
  pack_pairs(encoded.levels, 0, block + 32);
  std::uint8_t* scales = block + 96;
  std::fill_n(scales, 12, std::uint8_t{0});
  for (int group = 0; group < 16; ++group) {
    const int scale = encoded.scales[static_cast<std::size_t>(group)] + 32;
    scales[group % 8] = static_cast<std::uint8_t>(scales[group % 8] | ((scale & 15) << (group / 8 * 4)));
    scales[8 + group % 4] = static_cast<std::uint8_t>(scales[8 + group % 4] | ((scale >> 4) << (group / 4 * 2)));
  }
  store_f16(encoded.scale, block + 108);
}

void encode_q6_k(const float* in, std::uint8_t* block) {
  const SymmetricBlock encoded = encode_symmetric(in, 32, 128);
  for (int half = 0; half < 2; ++half) {
    const std::uint8_t* levels = encoded.levels.data() + half * 128;
    for (int j = 0; j < 64; ++j) {
      block[half * 64 + j] = static_cast<std::uint8_t>((levels[j] & 15) | ((levels[j + 64] & 15) << 4));
    }
  }
  pack_pairs(encoded.levels, 4, block + 128);
  for (std::size_t group = 0; group < 16; ++group) {
    block[192 + group] = static_cast<std::uint8_t>(static_cast<std::int8_t>(encoded.scales[group]));
  }
  store_f16(encoded.scale, block + 208);
}

}  // namespace

BlockEncoder super_block_encoder(DType type) {
  switch (type) {
    case DType::q2_k:
      return encode_q2_k;
    case DType::q3_k:
      return encode_q3_k;
    case DType::q4_k:
      return encode_q4_k;
    case DType::q5_k:
      return encode_q5_k;
    case DType::q6_k:
      return encode_q6_k;
    default:
      return nullptr;
  }
}

}  // namespace pastkv::tensor
