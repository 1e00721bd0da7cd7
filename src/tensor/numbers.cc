#include <cmath>
#include <limits>

#include "tensor/block_codec.h"
#include "tensor/codec.h"

namespace pastkv::tensor {

float f16_to_f32(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1FU;
  const std::uint32_t mantissa = bits & 0x3FFU;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  const std::uint32_t wide = exponent == 0x1F ? 0xFFU : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

std::uint16_t f32_to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  constexpr std::uint32_t kInfinity = 0x7F800000U;
  constexpr std::uint32_t kOverflow = 0x477FF000U;        // 65520: halfway between the largest f16 and the next step
  constexpr std::uint32_t kSmallestNormal = 0x38800000U;  // 2^-14
  std::uint32_t half = 0;
  if (magnitude > kInfinity) {
    half = 0x7E00U | ((magnitude >> 13) & 0x3FFU);
  } else if (magnitude >= kOverflow) {
    half = 0x7C00U;
  } else if (magnitude < kSmallestNormal) {
    // Added to 0.5, whose last bit is worth 2^-24, a subnormal f16 is rounded by the hardware itself.
    const float sum = std::bit_cast<float>(magnitude) + 0.5F;
    half = std::bit_cast<std::uint32_t>(sum) - std::bit_cast<std::uint32_t>(0.5F);
  } else {
    const std::uint32_t odd = (magnitude >> 13) & 1U;
    half = (magnitude - (static_cast<std::uint32_t>(127 - 15) << 23) + 0xFFFU + odd) >> 13;
  }
  return static_cast<std::uint16_t>(sign | half);
}

std::uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

float f8_e4m3_to_f32(std::uint8_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80U) << 24;
  const std::uint32_t exponent = (bits >> 3) & 0xFU;
  const std::uint32_t mantissa = bits & 7U;
  float magnitude = static_cast<float>(mantissa) * 0x1p-9F;
  if ((bits & 0x7FU) == 0x7FU) {
    magnitude = std::numeric_limits<float>::quiet_NaN();
  } else if (exponent != 0) {
    magnitude = std::bit_cast<float>(((exponent + (127 - 7)) << 23) | (mantissa << 20));
  }
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

float f8_e5m2_to_f32(std::uint8_t bits) {
  return f16_to_f32(static_cast<std::uint16_t>(bits << 8));
}

}  // namespace pastkv::tensor
