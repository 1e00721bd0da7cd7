#include <cstring>

#include "tensor/block_codec.h"
#include "tensor/codec.h"

namespace pastkv::tensor {
namespace {

float load_f16(const std::uint8_t* bytes) {
  return f16_to_f32(static_cast<std::uint16_t>(bytes[0] | (bytes[1] << 8)));
}

std::uint32_t load_u32(const std::uint8_t* bytes) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

// Blocks of 32 keep element j in the low nibble of byte j and element j + 16 in the high one.

void decode_q4_0(const std::uint8_t* block, float* out) {
  const float scale = load_f16(block);
  const std::uint8_t* levels = block + 2;
  for (int j = 0; j < 16; ++j) {
    out[j] = static_cast<float>((levels[j] & 15) - 8) * scale;
    out[j + 16] = static_cast<float>((levels[j] >> 4) - 8) * scale;
  }
}

void decode_q4_1(const std::uint8_t* block, float* out) {
  const float scale = load_f16(block);
  const float minimum = load_f16(block + 2);
  const std::uint8_t* levels = block + 4;
  for (int j = 0; j < 16; ++j) {
    out[j] = static_cast<float>(levels[j] & 15) * scale + minimum;
    out[j + 16] = static_cast<float>(levels[j] >> 4) * scale + minimum;
  }
}

// Bit j of `high` is the fifth bit of element j.
int five_bits(int nibble, std::uint32_t high, int element) {
  return nibble | static_cast<int>(((high >> element) & 1U) << 4);
}

void decode_q5_0(const std::uint8_t* block, float* out) {
  const float scale = load_f16(block);
  const std::uint32_t high = load_u32(block + 2);
  const std::uint8_t* levels = block + 6;
  for (int j = 0; j < 16; ++j) {
    out[j] = static_cast<float>(five_bits(levels[j] & 15, high, j) - 16) * scale;
    out[j + 16] = static_cast<float>(five_bits(levels[j] >> 4, high, j + 16) - 16) * scale;
  }
}

void decode_q5_1(const std::uint8_t* block, float* out) {
  const float scale = load_f16(block);
  const float minimum = load_f16(block + 2);
  const std::uint32_t high = load_u32(block + 4);
  const std::uint8_t* levels = block + 8;
  for (int j = 0; j < 16; ++j) {
    out[j] = static_cast<float>(five_bits(levels[j] & 15, high, j)) * scale + minimum;
    out[j + 16] = static_cast<float>(five_bits(levels[j] >> 4, high, j + 16)) * scale + minimum;
  }
}

void decode_q8_0(const std::uint8_t* block, float* out) {
  const float scale = load_f16(block);
  for (int j = 0; j < 32; ++j) out[j] = static_cast<float>(static_cast<std::int8_t>(block[2 + j])) * scale;
}

void decode_iq4_nl(const std::uint8_t* block, float* out) {
  static constexpr std::int8_t kValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  const float scale = load_f16(block);
  const std::uint8_t* levels = block + 2;
  for (int j = 0; j < 16; ++j) {
    out[j] = static_cast<float>(kValues[levels[j] & 15]) * scale;
    out[j + 16] = static_cast<float>(kValues[levels[j] >> 4]) * scale;
  }
}

// Element e of 256 with two bits each: halves of 128 share 32 bytes, and each run of 32 has its own pair of bits.
int two_bits(const std::uint8_t* levels, int element) {
  const int half = element / 128;
  const int run = element % 128 / 32;
  return (levels[half * 32 + element % 32] >> (2 * run)) & 3;
}

// scales [16]: scale in the low nibble, minimum in the high; levels [64]; f16 scale of scales; f16 scale of minima.
void decode_q2_k(const std::uint8_t* block, float* out) {
  const std::uint8_t* scales = block;
  const std::uint8_t* levels = block + 16;
  const float scale = load_f16(block + 80);
  const float minimum = load_f16(block + 82);
  for (int group = 0; group < 16; ++group) {
    const float group_scale = scale * static_cast<float>(scales[group] & 15);
    const float group_minimum = minimum * static_cast<float>(scales[group] >> 4);
    for (int j = group * 16; j < group * 16 + 16; ++j) {
      out[j] = group_scale * static_cast<float>(two_bits(levels, j)) - group_minimum;
    }
  }
}

// mask [32]: third bits, bit e / 32 of byte e % 32; levels [64]; 16 scales of 6 bits in 12 bytes; f16 scale of scales.
void decode_q3_k(const std::uint8_t* block, float* out) {
  const std::uint8_t* mask = block;
  const std::uint8_t* levels = block + 32;
  const std::uint8_t* scales = block + 96;
  const float scale = load_f16(block + 108);
  for (int group = 0; group < 16; ++group) {
    const int low = group < 8 ? scales[group] & 15 : scales[group - 8] >> 4;
    const int high = (scales[8 + group % 4] >> (2 * (group / 4))) & 3;
    const float group_scale = scale * static_cast<float>((low | (high << 4)) - 32);
    for (int j = group * 16; j < group * 16 + 16; ++j) {
      const int third = (mask[j % 32] >> (j / 32)) & 1;
      out[j] = group_scale * static_cast<float>(two_bits(levels, j) + 4 * third - 4);
    }
  }
}

struct ScaleAndMinimum {
  int scale;
  int minimum;
};

// Eight scales and eight minima of 6 bits each, packed in 12 bytes; shared by q4_k and q5_k.
ScaleAndMinimum packed_scale(const std::uint8_t* packed, int group) {
  if (group < 4) return {packed[group] & 63, packed[group + 4] & 63};
  const int scale = (packed[group + 4] & 15) | ((packed[group - 4] >> 6) << 4);
  const int minimum = (packed[group + 4] >> 4) | ((packed[group] >> 6) << 4);
  return {scale, minimum};
}

// Runs of 32: chunks of 64 elements share 32 bytes, the even run in the low nibbles.
int nibble(const std::uint8_t* levels, int run, int j) {
  const std::uint8_t byte = levels[run / 2 * 32 + j];
  return run % 2 == 0 ? byte & 15 : byte >> 4;
}

// f16 scale of scales; f16 scale of minima; packed [12]; levels [128].
void decode_q4_k(const std::uint8_t* block, float* out) {
  const float scale = load_f16(block);
  const float minimum = load_f16(block + 2);
  for (int run = 0; run < 8; ++run) {
    const ScaleAndMinimum packed = packed_scale(block + 4, run);
    const float run_scale = scale * static_cast<float>(packed.scale);
    const float run_minimum = minimum * static_cast<float>(packed.minimum);
    for (int j = 0; j < 32; ++j) {
      out[run * 32 + j] = run_scale * static_cast<float>(nibble(block + 16, run, j)) - run_minimum;
    }
  }
}

// As q4_k, with fifth bits [32] before the levels: bit `run` of byte j.
void decode_q5_k(const std::uint8_t* block, float* out) {
  const float scale = load_f16(block);
  const float minimum = load_f16(block + 2);
  const std::uint8_t* high = block + 16;
  for (int run = 0; run < 8; ++run) {
    const ScaleAndMinimum packed = packed_scale(block + 4, run);
    const float run_scale = scale * static_cast<float>(packed.scale);
    const float run_minimum = minimum * static_cast<float>(packed.minimum);
    for (int j = 0; j < 32; ++j) {
      const int level = nibble(block + 48, run, j) | (((high[j] >> run) & 1) << 4);
      out[run * 32 + j] = run_scale * static_cast<float>(level) - run_minimum;
    }
  }
}

// Low nibbles [128]; upper pairs of bits [64]; int8 scales [16]; f16 scale of scales. Halves of 128 elements in four
// runs of 32: runs 0 and 1 are the low nibbles of the half's 64 bytes, runs 2 and 3 the high ones.
void decode_q6_k(const std::uint8_t* block, float* out) {
  const std::uint8_t* low = block;
  const std::uint8_t* high = block + 128;
  const std::uint8_t* scales = block + 192;
  const float scale = load_f16(block + 208);
  for (int group = 0; group < 16; ++group) {
    const float group_scale = scale * static_cast<float>(static_cast<std::int8_t>(scales[group]));
    for (int j = group * 16; j < group * 16 + 16; ++j) {
      const int half = j / 128;
      const std::uint8_t byte = low[half * 64 + j % 64];
      const int four = j % 128 < 64 ? byte & 15 : byte >> 4;
      out[j] = group_scale * static_cast<float>((four | (two_bits(high, j) << 4)) - 32);
    }
  }
}

}  // namespace

BlockDecoder block_decoder(DType type) {
  switch (type) {
    case DType::q4_0:
      return decode_q4_0;
    case DType::q4_1:
      return decode_q4_1;
    case DType::q5_0:
      return decode_q5_0;
    case DType::q5_1:
      return decode_q5_1;
    case DType::q8_0:
      return decode_q8_0;
    case DType::q2_k:
      return decode_q2_k;
    case DType::q3_k:
      return decode_q3_k;
    case DType::q4_k:
      return decode_q4_k;
    case DType::q5_k:
      return decode_q5_k;
    case DType::q6_k:
      return decode_q6_k;
    case DType::iq4_nl:
      return decode_iq4_nl;
    default:
      return nullptr;
  }
}

}  // namespace pastkv::tensor
