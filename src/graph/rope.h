// Rotary position frequencies as data: a table, and for some models a rule that picks the table by total length.
#pragma once

#include <cstdint>
#include <vector>

namespace pastkv::graph {

struct RopeTable {
  std::vector<float> inverse_frequencies;  // [rotary_dim / 2]; angle = position * inverse_frequency
  float scale = 1.0F;                      // cos and sin are multiplied by it (attention factor of yarn and longrope)
};

// When the table depends on the total length (past + query), keys are kept unrotated in the state and rotated as they
// are read, so that a cache filled earlier stays right.
enum class RopeRule : std::uint8_t {
  fixed,       // `table` always
  two_tables,  // `table` while total length <= switch_length, `long_table` above (longrope)
  dynamic,     // the base grows with the total length above switch_length (dynamic NTK)
};

struct RopeFrequencies {
  RopeRule rule = RopeRule::fixed;
  RopeTable table;
  RopeTable long_table;            // two_tables only
  std::int64_t switch_length = 0;  // two_tables, dynamic
  double base = 0.0;               // dynamic only
  double factor = 1.0;             // dynamic only

  bool length_dependent() const { return rule != RopeRule::fixed; }
  RopeTable at(std::int64_t total_length) const;
};

}  // namespace pastkv::graph
