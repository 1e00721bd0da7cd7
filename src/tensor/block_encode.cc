#include <algorithm>
#include <cmath>
#include <cstring>

#include "tensor/block_codec.h"
#include "tensor/codec.h"

namespace pastkv::tensor {
namespace {

constexpr int kBlock = 32;

void store_f16(float value, std::uint8_t* bytes) {
  const std::uint16_t bits = f32_to_f16(value);
  std::memcpy(bytes, &bits, sizeof bits);
}

float inverse(float scale) {
  return scale == 0.0F ? 0.0F : 1.0F / scale;
}

// Drops the fraction; what is no number or out of range (weights may hold anything) lands on a limit.
int to_level(float value, int highest) {
  if (!(value > 0.0F)) return 0;
  return value >= static_cast<float>(highest) ? highest : static_cast<int>(value);
}

// The value of largest magnitude, with its sign; the first of equals.
float extreme(const float* in) {
  float found = 0.0F;
  for (int j = 0; j < kBlock; ++j) {
    if (std::fabs(in[j]) > std::fabs(found)) found = in[j];
  }
  return found;
}

void pack_nibbles(const int* levels, std::uint8_t* bytes) {
  for (int j = 0; j < 16; ++j) bytes[j] = static_cast<std::uint8_t>((levels[j] & 15) | ((levels[j + 16] & 15) << 4));
}

void pack_fifth_bits(const int* levels, std::uint8_t* bytes) {
  std::uint32_t high = 0;
  for (int j = 0; j < kBlock; ++j) high |= static_cast<std::uint32_t>((levels[j] >> 4) & 1) << j;
  std::memcpy(bytes, &high, sizeof high);
}

// Levels around zero, `half` of them below: the extreme value falls on the lowest level exactly. Returns the scale.
float symmetric_levels(const float* in, int half, int* levels) {
  const float scale = extreme(in) / static_cast<float>(-half);
  const float factor = inverse(scale);
  for (int j = 0; j < kBlock; ++j) {
    levels[j] = to_level(in[j] * factor + (static_cast<float>(half) + 0.5F), 2 * half - 1);
  }
  return scale;
}

struct Affine {
  float scale;
  float minimum;
};

// Levels 0 to `highest` between the smallest and the largest value.
Affine affine_levels(const float* in, int highest, int* levels) {
  const auto [smallest, largest] = std::minmax_element(in, in + kBlock);
  const float scale = (*largest - *smallest) / static_cast<float>(highest);
  const float factor = inverse(scale);
  for (int j = 0; j < kBlock; ++j) levels[j] = to_level((in[j] - *smallest) * factor + 0.5F, highest);
  return {scale, *smallest};
}

void encode_q4_0(const float* in, std::uint8_t* block) {
  int levels[kBlock];
  store_f16(symmetric_levels(in, 8, levels), block);
  pack_nibbles(levels, block + 2);
}

void encode_q4_1(const float* in, std::uint8_t* block) {
  int levels[kBlock];
  const Affine affine = affine_levels(in, 15, levels);
  store_f16(affine.scale, block);
  store_f16(affine.minimum, block + 2);
  pack_nibbles(levels, block + 4);
}

void encode_q5_0(const float* in, std::uint8_t* block) {
  int levels[kBlock];
  store_f16(symmetric_levels(in, 16, levels), block);
  pack_fifth_bits(levels, block + 2);
  pack_nibbles(levels, block + 6);
}

void encode_q5_1(const float* in, std::uint8_t* block) {
  int levels[kBlock];
  const Affine affine = affine_levels(in, 31, levels);
  store_f16(affine.scale, block);
  store_f16(affine.minimum, block + 2);
  pack_fifth_bits(levels, block + 4);
  pack_nibbles(levels, block + 8);
}

void encode_q8_0(const float* in, std::uint8_t* block) {
  const float scale = std::fabs(extreme(in)) / 127.0F;
  const float factor = inverse(scale);
  store_f16(scale, block);
  for (int j = 0; j < kBlock; ++j) {
    const float level = std::round(in[j] * factor);
    const float bounded = std::isnan(level) ? 0.0F : std::clamp(level, -127.0F, 127.0F);
    block[2 + j] = static_cast<std::uint8_t>(static_cast<std::int8_t>(bounded));
  }
}

}  // namespace

BlockEncoder block_encoder(DType type) {
  switch (type) {
    case DType::q4_0:
      return encode_q4_0;
    case DType::q4_1:
      return encode_q4_1;
    case DType::q5_0:
      return encode_q5_0;
    case DType::q5_1:
      return encode_q5_1;
    case DType::q8_0:
      return encode_q8_0;
    default:
      return super_block_encoder(type);
  }
}

}  // namespace pastkv::tensor
