#include "base/interrupt.h"

#include <csignal>

namespace pastkv {
namespace {

volatile std::sig_atomic_t noted = 0;

extern "C" void note_interrupt(int /*signal*/) {
  noted = 1;
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

}  // namespace

void catch_interrupts() {
  struct sigaction action{};
  action.sa_handler = note_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void check_interrupt() {
  if (noted != 0) throw Interrupted();
}

}  // namespace pastkv
