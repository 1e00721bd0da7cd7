// The graph that an exported decoder has: attention under the caller's mask, positions given or counted from it.
#pragma once

#include "graph/graph.h"

namespace pastkv::targets {

// Gives every attention the input attention_mask, i64 [batch, past + query]: 1 for a token, 0 for padding, which no
// query sees. With `position_ids` false that input goes, and a token's position is the number of tokens before it.
// Inputs come in the order input_ids, attention_mask, position_ids.
graph::Graph decoder_graph(graph::Graph graph, bool position_ids);

}  // namespace pastkv::targets
