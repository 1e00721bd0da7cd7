// A variant: a graph with its sizes bound. Prefill and generation are two variants of one graph; label, inputs and cost
// follow by computation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace pastkv::graph {

enum class Role : std::uint8_t { prefill, generation };
std::string_view name(Role role);

struct Variant {
  Role role = Role::prefill;
  Sizes sizes;
};

Variant prefill(std::int64_t query_length, std::int64_t past_length = 0, std::int64_t batch = 1);
Variant generation(std::int64_t past_length, std::int64_t batch = 1);

// Lower case, every run of other characters turned to `_`, none at the ends: "SmolLM2-135M" -> "smollm2_135m".
std::string slug(std::string_view model_name);
std::string label(std::string_view model_name, Role role);  // "<slug>_<role>"

struct TensorInfo {
  std::string name;
  tensor::DType dtype;
  std::vector<std::int64_t> shape;
};

// Positions of a cache of `past` tokens that the next token can still see: all, or window - 1 of them.
std::int64_t kept_positions(const State& state, std::int64_t past);

// Every input of the graph, then every state, with sizes bound. A state is listed as it goes in, with the positions
// that the next token can see, and by the name that ONNX exports use, whatever its Value is called: of its layer and
// role, "past_key_values.0.key".
std::vector<TensorInfo> inputs(const Graph& graph, const Variant& variant, tensor::DType state_dtype);

// Bytes of one position of a state, all its heads, batch 1; 0 for a buffer, which knows of none. Throws Error when
// head_dim is no whole number of blocks of the type.
std::uint64_t position_bytes(const Graph& graph, const State& state, tensor::DType state_dtype);

// Positions that a cache for `context` tokens has room for when `chunk` tokens are computed at once: all, or in a layer
// of a window the window - 1 that a token can see before it, and the chunk.
std::int64_t held_positions(std::int64_t window, std::int64_t context, std::int64_t chunk);

// Bytes of all states at `context` tokens, batch 1, each with its held_positions, a buffer always all of itself. Throws
// Error as position_bytes does, and when the bytes leave 64 bits.
std::uint64_t state_bytes(const Graph& graph, std::int64_t context, std::int64_t chunk, tensor::DType state_dtype);

}  // namespace pastkv::graph
