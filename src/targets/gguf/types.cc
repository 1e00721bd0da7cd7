#include "targets/gguf/types.h"

#include <array>
#include <charconv>

namespace pastkv::targets {
namespace {

using models::WeightRows;
using tensor::DType;

// Source of the numbers: enum llama_ftype in include/llama.h of llama.cpp.
struct NamedType {
  GgufType type;
  std::string_view name;
  DType matrices;           // of matrices, before any exception; without meaning for as_stored
  std::uint32_t file_type;  // as general.file_type has it
};

constexpr std::array<NamedType, 13> kTypes = {{{GgufType::as_stored, "as-stored", DType::f32, 0},
                                               {GgufType::f32, "f32", DType::f32, 0},
                                               {GgufType::f16, "f16", DType::f16, 1},
                                               {GgufType::bf16, "bf16", DType::bf16, 32},
                                               {GgufType::q8_0, "q8_0", DType::q8_0, 7},
                                               {GgufType::q4_0, "q4_0", DType::q4_0, 2},
                                               {GgufType::q4_1, "q4_1", DType::q4_1, 3},
                                               {GgufType::q5_0, "q5_0", DType::q5_0, 8},
                                               {GgufType::q5_1, "q5_1", DType::q5_1, 9},
                                               {GgufType::q4_k, "q4_k", DType::q4_k, 14},
                                               {GgufType::q5_k, "q5_k", DType::q5_k, 16},
                                               {GgufType::q6_k, "q6_k", DType::q6_k, 18},
                                               {GgufType::q4_k_m, "q4_k_m", DType::q4_k, 15}}};

const NamedType& named(GgufType type) {
  return kTypes.at(static_cast<std::size_t>(type));
}

// "blk.12.attn_v.weight" -> 12, "attn_v"; layer -1 outside the blocks.
struct Place {
  std::int64_t layer = -1;
  std::string_view module;
};

Place parse(std::string_view name) {
  constexpr std::string_view kBlock = "blk.";
  Place place;
  if (name.ends_with(".weight")) name.remove_suffix(std::string_view(".weight").size());
  if (name.starts_with(kBlock)) {
    name.remove_prefix(kBlock.size());
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), place.layer);
    name.remove_prefix(static_cast<std::size_t>(end - name.data()));
    if (name.starts_with('.')) name.remove_prefix(1);
  }
  place.module = name;
  return place;
}

// Readers compute with these as f32 and take them in no other type.
bool must_be_f32(const WeightRows& rows) {
  return rows.shape.size() < 2 || !rows.name.ends_with(".weight");
}

// The layers that suffer most from few bits: the first and the last eighth, and every third between.
bool is_delicate(std::int64_t layer, std::int64_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

DType stored(const WeightRows& rows) {
  const DType type = rows.stored_type();
  if (type == DType::f64) return DType::f32;
  if (type == DType::f8_e4m3 || type == DType::f8_e5m2) return DType::bf16;  // holds every number of theirs
  for (const formats::TensorEntry* part : rows.parts) {
    if (part->dtype != type) return DType::f16;
  }
  return type;
}

// For rows that are no whole number of blocks: the type with blocks of 32 that has at least as many bits, else f16.
DType fitting(DType type, std::int64_t width) {
  const auto fits = [width](DType tried) { return width % tensor::traits(tried).block_elements == 0; };
  if (fits(type)) return type;
  DType next = DType::f16;
  if (type == DType::q4_k) next = DType::q5_0;
  if (type == DType::q5_k) next = DType::q5_1;
  if (type == DType::q6_k) next = DType::q8_0;
  return fits(next) ? next : DType::f16;
}

DType wanted_type(GgufType wanted, const WeightRows& rows, const TensorPlace& model) {
  const DType type = named(wanted).matrices;
  const bool low = tensor::traits(type).block_elements > 1 && type != DType::q8_0;
  const Place place = parse(rows.name);
  if (place.module == "output" || (model.tied && place.module == "token_embd")) return low ? DType::q6_k : type;
  if (wanted != GgufType::q4_k_m) return type;
  if (place.module == "attn_qkv") return DType::q5_k;
  const bool weighty = place.module == "attn_v" || place.module == "ffn_down";
  return weighty && is_delicate(place.layer, model.layers) ? DType::q6_k : type;
}

}  // namespace

std::optional<GgufType> gguf_type_from_name(std::string_view name) {
  for (const NamedType& type : kTypes) {
    if (type.name == name) return type.type;
  }
  return std::nullopt;
}

std::string gguf_type_names() {
  std::string names;
  for (const NamedType& type : kTypes) {
    if (!names.empty()) names += ", ";
    names += type.name;
  }
  return names;
}

DType tensor_type(GgufType wanted, const WeightRows& rows, const TensorPlace& place) {
  if (must_be_f32(rows)) return DType::f32;
  if (wanted == GgufType::as_stored) return stored(rows);
  return fitting(wanted_type(wanted, rows, place), rows.width());
}

std::optional<std::uint32_t> file_type_number(GgufType type) {
  if (type == GgufType::as_stored) return std::nullopt;
  return named(type).file_type;
}

}  // namespace pastkv::targets
