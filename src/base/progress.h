// How far long work is, with its rate and the time left: one line on stderr, redrawn, and only when that is a terminal.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace pastkv {

// Told after each piece of work how many bytes of how many are done.
using ProgressSink = std::function<void(std::uint64_t done, std::uint64_t total)>;

// "writing  42%  120 of 286 MB  310 MB/s  0:01 left": what Progress draws after `seconds` of work.
std::string progress_line(std::string_view what, std::uint64_t done, std::uint64_t total, double seconds);

// One line on standard error that is overwritten as work goes on.
class StatusLine {
 public:
  // `shown`: false keeps it silent (--quiet); it is silent anyway without a terminal.
  explicit StatusLine(bool shown);
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;
  ~StatusLine();  // clears it

  bool is_shown() const { return shown_; }
  void show(std::string_view text);  // in place of what stood there

 private:
  bool shown_;
};

// The status line of work on bytes.
class Progress {
 public:
  Progress(std::string what, bool shown);

  void update(std::uint64_t done, std::uint64_t total);
  ProgressSink sink();  // calls update; must not outlive this

 private:
  std::string what_;
  StatusLine line_;
  std::int64_t started_ns_;
  std::int64_t drawn_ns_ = 0;
};

}  // namespace pastkv
