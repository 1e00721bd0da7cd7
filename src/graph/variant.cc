#include "graph/variant.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"

namespace pastkv::graph {
namespace {

bool is_letter_or_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

TensorInfo bound(std::string name, tensor::DType dtype, const Shape& shape, const Sizes& sizes) {
  TensorInfo info{.name = std::move(name), .dtype = dtype, .shape = {}};
  for (const Dim& dim : shape) info.shape.push_back(dim.at(sizes));
  return info;
}

}  // namespace

std::string_view name(Role role) {
  return role == Role::prefill ? "prefill" : "generation";
}

Variant prefill(std::int64_t query_length, std::int64_t past_length, std::int64_t batch) {
  return {.role = Role::prefill,
          .sizes = {.batch = batch,
                    .query = query_length,
                    .past = past_length,
                    .rows = 1,
                    .context = past_length + query_length}};
}

Variant generation(std::int64_t past_length, std::int64_t batch) {
  return {.role = Role::generation,
          .sizes = {.batch = batch, .query = 1, .past = past_length, .rows = 1, .context = past_length + 1}};
}

std::string slug(std::string_view model_name) {
  std::string out;
  for (const char c : model_name) {
    if (is_letter_or_digit(c)) {
      out += lower(c);
    } else if (!out.empty() && out.back() != '_') {
      out += '_';
    }
  }
  if (!out.empty() && out.back() == '_') out.pop_back();
  return out;
}

std::string label(std::string_view model_name, Role role) {
  return fmt::format("{}_{}", slug(model_name), name(role));
}

std::int64_t kept_positions(const State& state, std::int64_t past) {
  return state.window == 0 ? past : std::min(past, state.window - 1);
}

std::vector<TensorInfo> inputs(const Graph& graph, const Variant& variant, tensor::DType state_dtype) {
  std::vector<TensorInfo> out;
  for (const ValueId id : graph.inputs) {
    const Value& input = graph.value(id);
    out.push_back(bound(input.name, input.dtype, input.shape, variant.sizes));
  }
  for (const State& state : graph.states) {
    Sizes sizes = variant.sizes;
    sizes.context = kept_positions(state, sizes.past);
    if (state.role == StateRole::buffer) {
      out.push_back(bound(graph.value(state.value).name, state_dtype, graph.value(state.value).shape, sizes));
      continue;
    }
    out.push_back(bound(fmt::format("past_key_values.{}.{}", state.layer, name(state.role)), state_dtype,
                        graph.value(state.value).shape, sizes));
  }
  return out;
}

std::uint64_t position_bytes(const Graph& graph, const State& state, tensor::DType state_dtype) {
  const Value& value = graph.value(state.value);
  if (state.role == StateRole::buffer) return 0;
  const auto heads = static_cast<std::uint64_t>(value.shape[1].constant());
  const auto head_dim = static_cast<std::uint64_t>(value.shape[3].constant());
  const auto row = tensor::byte_size(state_dtype, head_dim);
  const auto bytes = row ? checked_multiply(*row, heads) : std::nullopt;
  if (!bytes) {
    throw Error({.place = value.name,
                 .reason = fmt::format("rows of {} elements do not fit {} blocks of {}", head_dim,
                                       tensor::name(state_dtype), tensor::traits(state_dtype).block_elements),
                 .remedy = "choose another type for the cache"});
  }
  return *bytes;
}

std::int64_t held_positions(std::int64_t window, std::int64_t context, std::int64_t chunk) {
  if (window == 0 || context <= window) return context;
  return chunk > context - (window - 1) ? context : window - 1 + chunk;
}

std::uint64_t state_bytes(const Graph& graph, std::int64_t context, std::int64_t chunk, tensor::DType state_dtype) {
  std::uint64_t total = 0;
  for (const State& state : graph.states) {
    if (state.role == StateRole::buffer) {
      std::uint64_t elements = 1;
      for (const Dim& dim : graph.value(state.value).shape) elements *= static_cast<std::uint64_t>(dim.constant());
      total += tensor::byte_size(state_dtype, elements).value_or(0);
      continue;
    }
    const std::int64_t length = held_positions(state.window, context, chunk);
    const auto bytes = checked_multiply(position_bytes(graph, state, state_dtype), static_cast<std::uint64_t>(length));
    const auto sum = bytes ? checked_add(total, *bytes) : std::nullopt;
    if (!sum) {
      throw Error({.place = graph.value(state.value).name,
                   .reason = fmt::format("a cache of {} tokens does not fit 64 bits", context),
                   .remedy = "choose a smaller context"});
    }
    total = *sum;
  }
  return total;
}

}  // namespace pastkv::graph
