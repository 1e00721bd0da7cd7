#include "cli/terminal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigaction is not in <csignal>
#include <unistd.h>

#include <array>
#include <cstdio>

namespace pastkv::cli {
namespace {

constexpr int kInterruptedCode = 130;

std::atomic<bool> interruptible{false};
std::atomic<bool> interrupted{false};

extern "C" void on_interrupt(int) {
  if (interruptible.load() && !interrupted.exchange(true)) return;
  const ssize_t ignored = write(STDERR_FILENO, "\n", 1);
  static_cast<void>(ignored);
  _exit(kInterruptedCode);
}

}  // namespace

void handle_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
}

Interruptible::Interruptible() {
  interrupted = false;
  interruptible = true;
}

Interruptible::~Interruptible() {
  interruptible = false;
}

const std::atomic<bool>* Interruptible::flag() const {
  return &interrupted;
}

bool is_terminal(int descriptor) {
  return isatty(descriptor) == 1;
}

std::string bytes_text(double bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  for (; bytes >= 999.5 && unit + 1 < kUnits.size(); ++unit) bytes /= 1000;
  if (unit == 0) return fmt::format("{:.0f} B", bytes);
  return fmt::format("{:.{}f} {}", bytes, bytes < 99.95 ? 1 : 0, kUnits[unit]);
}

std::string count_text(double count) {
  constexpr std::array<const char*, 5> kUnits = {"", " k", " M", " G", " T"};
  std::size_t unit = 0;
  for (; count >= 999.95 && unit + 1 < kUnits.size(); ++unit) count /= 1000;
  return fmt::format("{:.{}f}{}", count, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string milliseconds_text(double ms) {
  if (ms >= 9999.5) return fmt::format("{:.1f} s", ms / 1000);
  return fmt::format("{:.{}f} ms", ms, ms < 9.995 ? 2 : ms < 99.95 ? 1 : 0);
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace pastkv::cli
