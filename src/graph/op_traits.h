// What every operation takes, in one table: for the verifier and whoever prints or lists operations.
#pragma once

#include <cstddef>
#include <limits>
#include <string_view>

#include "graph/graph.h"

namespace pastkv::graph {

enum class Level : std::uint8_t { composite, both, primitive };

inline constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max();

struct OpTraits {
  Op op;
  std::string_view name;
  Level level;
  std::size_t least_inputs;
  std::size_t most_inputs;
  bool (*accepts)(const Attributes& attributes);  // whether they are of the kind that the operation needs
};

const OpTraits& traits(Op op);

}  // namespace pastkv::graph
