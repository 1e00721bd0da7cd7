#include "engine/stop_text.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace pastkv::engine {

StopText::StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_) {
    if (stop.empty()) {
      throw Error({.file = {}, .place = "stop text", .reason = "is empty", .remedy = "give at least one character"});
    }
  }
}

std::string StopText::push(std::string_view text) {
  if (stopped_) return {};
  held_ += text;
  std::size_t found = std::string::npos;
  for (const std::string& stop : stops_) found = std::min(found, held_.find(stop));
  if (found != std::string::npos) {
    stopped_ = true;
    return std::exchange(held_, {}).substr(0, found);
  }
  std::size_t keep = 0;  // the longest end of held_ that begins a stop text
  for (const std::string& stop : stops_) {
    for (std::size_t n = std::min(stop.size() - 1, held_.size()); n > keep; --n) {
      if (std::string_view(held_).substr(held_.size() - n) == std::string_view(stop).substr(0, n)) keep = n;
    }
  }
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, out.size());
  return out;
}

std::string StopText::finish() {
  return std::exchange(held_, {});
}

}  // namespace pastkv::engine
