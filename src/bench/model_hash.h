// A short name for exactly this model: two results with the same hash came from the same structure and weights.
#pragma once

#include <string>

#include "models/model.h"

namespace pastkv::bench {

// "xxh3:<16 hex digits>" (XXH3, 64 bits) over the graph's text and every tensor's name, type, shape and bytes: as fast
// as the file can be read. Not a defence against a forger.
std::string model_hash(const models::Model& model);

}  // namespace pastkv::bench
