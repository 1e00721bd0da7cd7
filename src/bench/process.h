// The memory of this process, and running this program again in a fresh one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pastkv::bench {

struct ProcessMemory {
  std::uint64_t peak_rss_bytes = 0;   // most resident at once since the start of the process
  std::uint64_t anonymous_bytes = 0;  // resident now and backed by no file: states, buffers, code's own data
  std::uint64_t file_bytes = 0;       // resident now and backed by files: mapped weights, program, libraries
};

// From the system's own count; all 0 where the system has none.
ProcessMemory process_memory();
// The same from the text of /proc/self/status.
ProcessMemory parse_process_status(const std::string& status);

struct ChildResult {
  std::string output;            // everything it wrote to standard output
  int exit_code = 0;             // 128 + signal when one ended it
  std::optional<int> killed_by;  // the signal
};

// Runs this very program with other arguments (after the program's name) and waits for it; its standard error is ours.
// Throws Error when it cannot be started.
ChildResult run_self(const std::vector<std::string>& arguments);

}  // namespace pastkv::bench
