// The machine a measurement was made on.
#pragma once

#include <cstdint>
#include <string>

namespace pastkv::bench {

struct Host {
  std::string processor;           // "AMD EPYC 7003"
  int cores = 0;                   // physical, of the machine
  int allowed = 0;                 // logical processors this process may use
  std::uint64_t memory_bytes = 0;  // of the machine
  std::string os;                  // "Debian GNU/Linux 12 (bookworm), Linux 6.1.0"
  std::string compiler;            // that built this program
};

Host host();

}  // namespace pastkv::bench
