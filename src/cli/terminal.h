// What stands between a command and the person: interrupts, progress, numbers with units.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
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

// One line on standard error that is overwritten as work goes on; nothing when that is no terminal, or `quiet`.
class Progress {
 public:
  explicit Progress(bool quiet);
  ~Progress();  // wipes the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void show(std::string_view text);

 private:
  bool shown_;
};

bool is_terminal(int descriptor);

std::string bytes_text(double bytes);                            // "97.9 MB"
std::string count_text(double count);                            // "134.5 M"
std::string milliseconds_text(double ms);                        // "12.3 ms", "1.24 s"
std::string shape_text(const std::vector<std::int64_t>& shape);  // "[1, 3, 128, 64]"

}  // namespace pastkv::cli
