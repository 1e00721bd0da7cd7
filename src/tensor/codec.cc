#include "tensor/codec.h"

#include <cstring>
#include <string>

#include "base/error.h"
#include "tensor/block_codec.h"

namespace pastkv::tensor {
namespace {

static_assert(std::endian::native == std::endian::little, "rows are little-endian and are read as they lie");

[[noreturn]] void refuse(DType type, const char* what) {
  throw Error({.file = {},
               .place = {},
               .reason = "elements of type " + std::string(name(type)) + " cannot be " + what,
               .remedy = {}});
}

template <typename Stored, typename Convert>
void decode_numbers(std::span<const std::byte> row, std::span<float> out, Convert convert) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, row.data() + i * sizeof stored, sizeof stored);
    out[i] = convert(stored);
  }
}

template <typename Convert>
void encode_halves(std::span<const float> in, std::span<std::byte> row, Convert convert) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::uint16_t stored = convert(in[i]);
    std::memcpy(row.data() + i * sizeof stored, &stored, sizeof stored);
  }
}

}  // namespace

void decode_row(DType type, std::span<const std::byte> row, std::span<float> out) {
  switch (type) {
    case DType::f32:
      if (!out.empty()) std::memcpy(out.data(), row.data(), out.size_bytes());
      return;
    case DType::f16:
      return decode_numbers<std::uint16_t>(row, out, f16_to_f32);
    case DType::bf16:
      return decode_numbers<std::uint16_t>(row, out, bf16_to_f32);
    case DType::f64:
      return decode_numbers<double>(row, out, [](double value) { return static_cast<float>(value); });
    case DType::f8_e4m3:
      return decode_numbers<std::uint8_t>(row, out, f8_e4m3_to_f32);
    case DType::f8_e5m2:
      return decode_numbers<std::uint8_t>(row, out, f8_e5m2_to_f32);
    default:
      break;
  }
  const BlockDecoder decode = block_decoder(type);
  if (decode == nullptr) refuse(type, "read as floats");
  const auto elements = static_cast<std::size_t>(traits(type).block_elements);
  const auto bytes = static_cast<std::size_t>(traits(type).block_bytes);
  const auto* blocks = reinterpret_cast<const std::uint8_t*>(row.data());
  for (std::size_t block = 0; block < out.size() / elements; ++block) {
    decode(blocks + block * bytes, out.data() + block * elements);
  }
}

bool can_encode(DType type) {
  return type == DType::f32 || type == DType::f16 || type == DType::bf16 || block_encoder(type) != nullptr;
}

void encode_row(DType type, std::span<const float> in, std::span<std::byte> row) {
  switch (type) {
    case DType::f32:
      if (!in.empty()) std::memcpy(row.data(), in.data(), in.size_bytes());
      return;
    case DType::f16:
      return encode_halves(in, row, f32_to_f16);
    case DType::bf16:
      return encode_halves(in, row, f32_to_bf16);
    default:
      break;
  }
  const BlockEncoder encode = block_encoder(type);
  if (encode == nullptr) refuse(type, "written from floats");
  const auto elements = static_cast<std::size_t>(traits(type).block_elements);
  const auto bytes = static_cast<std::size_t>(traits(type).block_bytes);
  auto* blocks = reinterpret_cast<std::uint8_t*>(row.data());
  for (std::size_t block = 0; block < in.size() / elements; ++block) {
    encode(in.data() + block * elements, blocks + block * bytes);
  }
}

}  // namespace pastkv::tensor
