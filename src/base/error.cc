#include "base/error.h"

#include <cstdio>
#include <utility>

namespace pastkv {
namespace {

// A hostile name must not break the line or steer the terminal.
void append_printable(std::string& line, const std::string& text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7F) {
      line += c;
      continue;
    }
    char escape[5];
    std::snprintf(escape, sizeof escape, "\\x%02x", byte);
    line += escape;
  }
}

std::string one_line(const ErrorInfo& info) {
  std::string line;
  for (const std::string* where : {&info.file, &info.place}) {
    if (where->empty()) continue;
    append_printable(line, *where);
    line += ": ";
  }
  append_printable(line, info.reason);
  if (!info.remedy.empty()) {
    line += "; ";
    append_printable(line, info.remedy);
  }
  return line;
}

}  // namespace

Error::Error(ErrorInfo info) : info_(std::move(info)), line_(one_line(info_)) {}

}  // namespace pastkv
