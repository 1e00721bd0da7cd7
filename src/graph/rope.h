// Rotary position frequencies as data: a table, and for some models a rule that picks the table by total length.
#pragma once

#include <cstdint>
#include <vector>

namespace pastkv::graph {

struct RopeTable {
  std::vector<float> inverse_frequencies;  // [rotary_dim / 2]; angle = position * inverse_frequency
  float scale = 1.0F;                      // cos and sin are multiplied by it (attention factor of yarn and longrope)
  friend bool operator==(const RopeTable&, const RopeTable&) = default;
};

// Some tables depend on the total length of a call (past + query); that table then holds for every token of the call.
// A state filled under another table is stale as a whole (deeper layers saw other inputs), so whoever keeps states
// computes everything again when the table changes; see rope_changes.
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

  friend bool operator==(const RopeFrequencies&, const RopeFrequencies&) = default;
  RopeTable at(std::int64_t total_length) const;
  bool changes(std::int64_t length_before, std::int64_t length_after) const;  // at() gives another table
};

struct Graph;

// Whether states filled by calls up to `length_before` tokens in all are stale for a call that ends at `length_after`.
bool rope_changes(const Graph& graph, std::int64_t length_before, std::int64_t length_after);

}  // namespace pastkv::graph
