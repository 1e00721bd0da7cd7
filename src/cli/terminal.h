// What stands between a command and the person: interrupts, numbers with units.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace pastkv::cli {

// Ctrl-C ends the program at once with code 130, unless an Interruptible is alive: then it only sets its flag, and a
// second Ctrl-C ends the program.
void handle_interrupts();

class Interruptible {
 public:
  Interruptible();
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
  const std::atomic<bool>* flag() const;
};

bool is_terminal(int descriptor);

std::string bytes_text(double bytes);                            // "97.9 MB"
std::string count_text(double count);                            // "134.5 M"
std::string milliseconds_text(double ms);                        // "12.3 ms", "1.24 s"
std::string shape_text(const std::vector<std::int64_t>& shape);  // "[1, 3, 128, 64]"

}  // namespace pastkv::cli
