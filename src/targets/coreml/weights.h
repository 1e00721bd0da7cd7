// The weights of a graph, row by row from the model's files into a weight file. Private to the room.
#pragma once

#include <string>
#include <vector>

#include "formats/coreml/weight_blob.h"
#include "models/spelling.h"
#include "targets/coreml/lower.h"

namespace pastkv::targets::coreml {

// Writes every weight that the graph uses, each once, as `type` (float16 or float32). What fp16 cannot hold becomes the
// nearest number that it can, and a note says so.
WeightOffsets write_weights(const models::CanonicalModel& model, formats::coreml::BlobType type,
                            formats::coreml::WeightBlobWriter& writer, const WriteContext& context,
                            std::vector<std::string>& notes);

// Bytes that write_weights writes, records apart.
std::uint64_t weight_bytes(const models::CanonicalModel& model, formats::coreml::BlobType type);

}  // namespace pastkv::targets::coreml
