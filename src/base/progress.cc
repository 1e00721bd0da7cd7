#include "base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <utility>

namespace pastkv {
namespace {

constexpr std::int64_t kBetweenDraws = 100'000'000;  // ns
constexpr double kMegabyte = 1e6;
constexpr const char* kClearLine = "\r\x1b[K";

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string duration_text(double seconds) {
  const auto whole = std::lround(std::min(seconds, 359999.0));
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace

std::string progress_line(std::string_view what, std::uint64_t done, std::uint64_t total, double seconds) {
  const double part = total == 0 ? 1.0 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  std::string line = fmt::format("{} {:3.0f}%", what, 100 * part);
  if (seconds <= 0 || done == 0) return line;
  const double rate = static_cast<double>(done) / seconds;
  line += fmt::format("  {:.0f} of {:.0f} MB  {:.0f} MB/s", static_cast<double>(done) / kMegabyte,
                      static_cast<double>(total) / kMegabyte, rate / kMegabyte);
  if (done < total) line += fmt::format("  {} left", duration_text(static_cast<double>(total - done) / rate));
  return line;
}

StatusLine::StatusLine(bool shown) : shown_(shown && ::isatty(STDERR_FILENO) != 0) {}

StatusLine::~StatusLine() {
  show({});
}

void StatusLine::show(std::string_view text) {
  if (!shown_) return;
  fmt::print(stderr, "{}{}", kClearLine, text);
  std::fflush(stderr);
}

Progress::Progress(std::string what, bool shown) : what_(std::move(what)), line_(shown), started_ns_(now_ns()) {}

void Progress::update(std::uint64_t done, std::uint64_t total) {
  if (!line_.is_shown()) return;
  const std::int64_t now = now_ns();
  if (drawn_ns_ != 0 && now - drawn_ns_ < kBetweenDraws) return;
  drawn_ns_ = now;
  line_.show(progress_line(what_, done, total, static_cast<double>(now - started_ns_) * 1e-9));
}

ProgressSink Progress::sink() {
  return [this](std::uint64_t done, std::uint64_t total) { update(done, total); };
}

}  // namespace pastkv
