// SIGINT and SIGTERM as an exception: long work asks now and then, and unwinds as from any other failure.
#pragma once

#include <exception>

namespace pastkv {

class Interrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted"; }
};

// From now on a first SIGINT or SIGTERM is only noted; a second one ends the program as it always would.
void catch_interrupts();

// Throws Interrupted when a signal was noted. OutputFile calls it with each write.
void check_interrupt();

}  // namespace pastkv
