// What the machine itself can do, measured: how fast it reads memory, how fast it multiplies and adds.
#pragma once

#include <string>

namespace pastkv::bench {

struct MachineLimits {
  double read_bytes_per_second = 0;  // from memory too large for the caches
  double f32_ops_per_second = 0;     // a multiply and an add are two
  double int8_ops_per_second = 0;
  std::string loops;  // which instructions the arithmetic used
};

// The best of several passes, with `threads` threads. Takes about a second and up to 1 GiB of memory meanwhile.
MachineLimits measure_limits(int threads);

}  // namespace pastkv::bench
