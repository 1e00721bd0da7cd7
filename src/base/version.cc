#include "base/version.h"

namespace pastkv {

std::string_view version() {
  return PASTKV_VERSION;
}

}  // namespace pastkv
