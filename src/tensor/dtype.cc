#include "tensor/dtype.h"

#include <array>

#include "base/checked.h"

namespace pastkv::tensor {
namespace {

// In the order of the enumeration.
constexpr std::array kTraits = {
    DTypeTraits{"f32", 1, 4, true},      DTypeTraits{"f16", 1, 2, true},      DTypeTraits{"bf16", 1, 2, true},
    DTypeTraits{"f64", 1, 8, true},      DTypeTraits{"int8", 1, 1, false},    DTypeTraits{"int16", 1, 2, false},
    DTypeTraits{"int32", 1, 4, false},   DTypeTraits{"int64", 1, 8, false},   DTypeTraits{"uint8", 1, 1, false},
    DTypeTraits{"uint16", 1, 2, false},  DTypeTraits{"uint32", 1, 4, false},  DTypeTraits{"uint64", 1, 8, false},
    DTypeTraits{"bool", 1, 1, false},    DTypeTraits{"f8_e4m3", 1, 1, true},  DTypeTraits{"f8_e5m2", 1, 1, true},
    DTypeTraits{"q4_0", 32, 18, true},   DTypeTraits{"q4_1", 32, 20, true},   DTypeTraits{"q5_0", 32, 22, true},
    DTypeTraits{"q5_1", 32, 24, true},   DTypeTraits{"q8_0", 32, 34, true},   DTypeTraits{"q2_k", 256, 84, true},
    DTypeTraits{"q3_k", 256, 110, true}, DTypeTraits{"q4_k", 256, 144, true}, DTypeTraits{"q5_k", 256, 176, true},
    DTypeTraits{"q6_k", 256, 210, true}, DTypeTraits{"iq4_nl", 32, 18, true},
};
static_assert(kTraits.size() == static_cast<std::size_t>(DType::iq4_nl) + 1);
static_assert(kTraits[static_cast<std::size_t>(DType::boolean)].name == "bool");
static_assert(kTraits[static_cast<std::size_t>(DType::q6_k)].name == "q6_k");

}  // namespace

const DTypeTraits& traits(DType type) {
  return kTraits[static_cast<std::size_t>(type)];
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kTraits.size(); ++i) {
    if (kTraits[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> byte_size(DType type, std::uint64_t elements) {
  const DTypeTraits& t = traits(type);
  const auto block = static_cast<std::uint64_t>(t.block_elements);
  if (elements % block != 0) return std::nullopt;
  return checked_multiply(elements / block, static_cast<std::uint64_t>(t.block_bytes));
}

}  // namespace pastkv::tensor
