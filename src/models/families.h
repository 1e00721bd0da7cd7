// Every architecture that can be read, each defined in its own file; registry.cc lists them.
#pragma once

#include "models/architecture.h"

namespace pastkv::models {

extern const Architecture kLlama;
extern const Architecture kMistral;
extern const Architecture kQwen2;
extern const Architecture kQwen3;
extern const Architecture kGemma2;
extern const Architecture kGemma3;
extern const Architecture kPhi3;
extern const Architecture kOpenElm;

}  // namespace pastkv::models
