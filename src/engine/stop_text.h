// Text that may still turn out to be the start of a stop text is held back until that is decided.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pastkv::engine {

class StopText {
 public:
  // Throws Error when one of `stops` is empty.
  explicit StopText(std::vector<std::string> stops);

  // Takes text that follows what came before; gives what is now known to precede every stop text.
  std::string push(std::string_view text);
  // What was held back, when no more text comes.
  std::string finish();

  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace pastkv::engine
