// The version of the program, as CMake's project() gives it.
#pragma once

#include <string_view>

namespace pastkv {

std::string_view version();

}  // namespace pastkv
