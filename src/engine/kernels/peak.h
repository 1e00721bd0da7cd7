// How fast this processor can multiply and add at all: loops over registers that do nothing else. The measure that a
// benchmark compares with.
#pragma once

#include <cstdint>
#include <string_view>

namespace pastkv::engine {

struct PeakLoops {
  std::string_view name;
  // Each runs `rounds` rounds on the calling thread and gives the operations done; a multiply and an add are two.
  double (*f32)(std::int64_t rounds);
  double (*int8)(std::int64_t rounds);  // products of 8-bit integers, summed in 32 bits
};

// The widest that this processor has.
PeakLoops peak_loops();

}  // namespace pastkv::engine
