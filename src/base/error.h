// The one error type of the project: what failed, where, why, and what to do about it.
//
// Thrown where a fault is found, caught once at the border (the command line, a language binding).
// `what()` is one line, fit to be shown to a person as it stands.
#pragma once

#include <exception>
#include <string>

namespace pastkv {

struct ErrorInfo {
  std::string file;    // path of the file at fault; empty when no file is
  std::string place;   // tensor, key, byte offset or option inside it; empty when the whole is
  std::string reason;  // what is wrong, with the values seen and wanted
  std::string remedy;  // what the person can do; empty when nothing is known to help
};

class Error : public std::exception {
 public:
  explicit Error(ErrorInfo info);

  const ErrorInfo& info() const noexcept { return info_; }
  const char* what() const noexcept override { return line_.c_str(); }

 private:
  ErrorInfo info_;
  std::string line_;  // "file: place: reason; remedy", control characters escaped
};

}  // namespace pastkv
