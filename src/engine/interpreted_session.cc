#include "engine/interpreted_session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "graph/rope.h"
#include "graph/variant.h"

namespace pastkv::engine {
namespace {

using graph::Tensor;

constexpr float kUnseen = -65504.0F;  // the lowest f16 number: callers of f16 programs can say no less
constexpr std::string_view kLogits = "logits";

enum class Feed : std::uint8_t { ids, positions, ones, causal_mask, rows };

struct Known {
  std::string_view name;
  Feed feed;
};
constexpr std::array<Known, 6> kKnown = {{{"input_ids", Feed::ids},
                                          {"inputIds", Feed::ids},
                                          {"position_ids", Feed::positions},
                                          {"attention_mask", Feed::ones},
                                          {"causalMask", Feed::causal_mask},
                                          {"num_logits_to_keep", Feed::rows}}};

Feed feed_of(const std::string& name) {
  const auto* const known = std::find_if(kKnown.begin(), kKnown.end(), [&](const Known& k) { return k.name == name; });
  if (known == kKnown.end()) {
    throw Error({.file = {},
                 .place = "input " + name,
                 .reason = "is none that a language model's callers give",
                 .remedy = "the inputs known are input_ids, position_ids, attention_mask and a causal mask"});
  }
  return known->feed;
}

// [..., query or 1, end]: row i of `rows` is of the token at position end - rows + i. One row for all hides nothing.
void fill_causal(Tensor& mask) {
  const std::int64_t end = mask.shape.back();
  const std::int64_t rows = mask.shape.size() < 2 ? 1 : mask.shape[mask.shape.size() - 2];
  if (rows == 1) return;
  for (std::size_t i = 0; i < mask.data.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    if (at % end > end - rows + at / end % rows) mask.data[i] = kUnseen;
  }
}

}  // namespace

InterpretedSession::InterpretedSession(graph::Graph graph, graph::WeightReader weights, InterpretedOptions options)
    : graph_(std::move(graph)),
      options_(options),
      interpreter_(graph_, std::move(weights),
                   {.round_to_f16 = options.round_to_f16, .hold_weights = options.hold_weights}) {
  if (options_.context < 1) {
    throw Error({.file = {},
                 .place = "context",
                 .reason = fmt::format("is {}", options_.context),
                 .remedy = "give at least 1 token"});
  }
  for (const graph::ValueId id : graph_.inputs) feed_of(graph_.value(id).name);
  const auto is_logits = [&](graph::ValueId id) { return graph_.value(id).name == kLogits; };
  if (std::none_of(graph_.outputs.begin(), graph_.outputs.end(), is_logits)) {
    throw Error({.file = {}, .place = "outputs", .reason = "none is called logits", .remedy = {}});
  }
}

std::uint64_t InterpretedSession::state_bytes() const {
  // Everything is kept, of a window too.
  return graph::state_bytes(graph_, past_length(), /*chunk=*/past_length(), tensor::DType::f32);
}

// The shape that the graph declares decides; what it holds, the input's name.
Tensor InterpretedSession::input(const graph::Value& value, std::span<const std::int32_t> ids,
                                 std::int64_t rows) const {
  const std::int64_t past = past_length();
  const std::int64_t query = std::ssize(ids);
  Tensor out;
  std::size_t count = 1;
  for (const graph::Dim& dim : value.shape) {
    out.shape.push_back(dim.at({.batch = 1, .query = query, .past = past, .rows = rows, .context = past + query}));
    count *= static_cast<std::size_t>(std::max<std::int64_t>(out.shape.back(), 0));
  }
  out.data.resize(count);
  switch (feed_of(value.name)) {
    case Feed::ids:
      if (count == ids.size()) std::copy(ids.begin(), ids.end(), out.data.begin());
      break;
    case Feed::positions:
      std::iota(out.data.begin(), out.data.end(), static_cast<float>(past));
      break;
    case Feed::ones:
      std::fill(out.data.begin(), out.data.end(), 1.0F);
      break;
    case Feed::causal_mask:
      fill_causal(out);
      break;
    case Feed::rows:
      std::fill(out.data.begin(), out.data.end(), static_cast<float>(rows));
      break;
  }
  return out;
}

std::span<const float> InterpretedSession::run(std::span<const std::int32_t> ids, std::int64_t rows) {
  std::vector<std::int32_t> fresh(ids.begin(), ids.end());
  const std::int64_t total = past_length() + std::ssize(fresh);
  if (past_length() > 0 && graph::rope_changes(graph_, rope_length_, total)) {
    fresh.insert(fresh.begin(), ids_.begin(), ids_.end());
    keep(0);
  }
  const std::int64_t made = std::max<std::int64_t>(rows, 1);
  std::map<std::string, Tensor> inputs;
  for (const graph::ValueId id : graph_.inputs) {
    inputs.emplace(graph_.value(id).name, input(graph_.value(id), fresh, made));
  }
  const Tensor given = std::move(interpreter_.run(inputs, made).at(std::string(kLogits)));
  const auto wanted = static_cast<std::size_t>(rows * options_.vocab);
  if (given.shape.empty() || given.shape.back() != options_.vocab || given.data.size() < wanted) {
    throw Error({.file = {},
                 .place = "output logits",
                 .reason = fmt::format("has the shape [{}], wants {} rows of {}", fmt::join(given.shape, ", "), made,
                                       options_.vocab),
                 .remedy = {}});
  }
  logits_.assign(given.data.end() - static_cast<std::ptrdiff_t>(wanted), given.data.end());
  ids_.insert(ids_.end(), fresh.begin(), fresh.end());
  rope_length_ = total;
  return logits_;
}

std::int64_t InterpretedSession::keep(std::int64_t length) {
  length = std::min(length, past_length());
  interpreter_.truncate(length);
  ids_.resize(static_cast<std::size_t>(length));
  return length;
}

}  // namespace pastkv::engine
