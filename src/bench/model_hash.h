// A short name for exactly this model: two results with the same hash came from the same structure and weights.
#pragma once

#include <string>

#include "models/model.h"

namespace pastkv::bench {

// "sampled-fnv1a64:<16 hex digits>" over the graph's text, every tensor's name, type, shape and size, and of its bytes
// the first and last 4 KiB and 14 stretches of 4 KiB between them (all of it when it is not larger than that). Not a
// defence against a forger.
std::string model_hash(const models::Model& model);

}  // namespace pastkv::bench
