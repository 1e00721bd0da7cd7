#include "graph/graph.h"

#include <algorithm>
#include <array>
#include <utility>

#include "graph/op_traits.h"

namespace pastkv::graph {
namespace {

template <typename Kind>
bool holds(const Attributes& attributes) {
  return std::holds_alternative<Kind>(attributes);
}

constexpr auto kNone = holds<std::monostate>;
constexpr auto kShape = holds<ShapeAttributes>;
constexpr auto kAxis = holds<AxisAttributes>;
constexpr auto kComposite = Level::composite;
constexpr auto kBoth = Level::both;
constexpr auto kPrimitive = Level::primitive;

constexpr std::array<OpTraits, kOps> kTraits = {{
    {Op::embedding, "embedding", kComposite, 2, 2, kNone},
    {Op::linear, "linear", kComposite, 2, 3, kNone},
    {Op::rms_norm, "rms_norm", kComposite, 2, 2, holds<NormAttributes>},
    {Op::layer_norm, "layer_norm", kComposite, 2, 3, holds<NormAttributes>},
    {Op::rope, "rope", kComposite, 2, 2, holds<RopeAttributes>},
    {Op::state_update, "state_update", kComposite, 2, 2, kNone},
    {Op::attention, "attention", kComposite, 3, 4, holds<AttentionAttributes>},
    {Op::activation, "activation", kComposite, 1, 1, holds<ActivationAttributes>},
    {Op::softcap, "softcap", kComposite, 1, 1, holds<SoftcapAttributes>},
    {Op::pick_rows, "pick_rows", kComposite, 1, 1, kNone},
    {Op::scale, "scale", kComposite, 1, 1, holds<ScaleAttributes>},
    {Op::split, "split", kComposite, 1, 1, holds<SplitAttributes>},
    {Op::add, "add", kBoth, 2, 2, kNone},
    {Op::multiply, "multiply", kBoth, 2, 2, kNone},
    {Op::reshape, "reshape", kBoth, 1, 1, kShape},
    {Op::gather, "gather", kPrimitive, 2, 2, kNone},
    {Op::matmul, "matmul", kPrimitive, 2, 2, kNone},
    {Op::transpose, "transpose", kPrimitive, 1, 1, holds<PermutationAttributes>},
    {Op::slice, "slice", kPrimitive, 1, 1, holds<SliceAttributes>},
    {Op::concat, "concat", kPrimitive, 1, kAnyNumber, kAxis},
    {Op::expand, "expand", kPrimitive, 1, 1, kShape},
    {Op::subtract, "subtract", kPrimitive, 2, 2, kNone},
    {Op::divide, "divide", kPrimitive, 2, 2, kNone},
    {Op::power, "power", kPrimitive, 2, 2, kNone},
    {Op::negate, "negate", kPrimitive, 1, 1, kNone},
    {Op::absolute, "absolute", kPrimitive, 1, 1, kNone},
    {Op::exponential, "exponential", kPrimitive, 1, 1, kNone},
    {Op::square_root, "square_root", kPrimitive, 1, 1, kNone},
    {Op::tanh, "tanh", kPrimitive, 1, 1, kNone},
    {Op::erf, "erf", kPrimitive, 1, 1, kNone},
    {Op::sine, "sine", kPrimitive, 1, 1, kNone},
    {Op::cosine, "cosine", kPrimitive, 1, 1, kNone},
    {Op::reduce_sum, "reduce_sum", kPrimitive, 1, 1, kAxis},
    {Op::reduce_mean, "reduce_mean", kPrimitive, 1, 1, kAxis},
    {Op::reduce_max, "reduce_max", kPrimitive, 1, 1, kAxis},
    {Op::cumulative_sum, "cumulative_sum", kPrimitive, 1, 1, holds<AxisAttributes>},
    {Op::softmax, "softmax", kPrimitive, 1, 1, kNone},
    {Op::range, "range", kPrimitive, 0, 0, kShape},
    {Op::less, "less", kPrimitive, 2, 2, kNone},
    {Op::less_equal, "less_equal", kPrimitive, 2, 2, kNone},
    {Op::logical_and, "logical_and", kPrimitive, 2, 2, kNone},
    {Op::select, "select", kPrimitive, 3, 3, kNone},
    {Op::cast, "cast", kPrimitive, 1, 1, holds<CastAttributes>},
    {Op::update_slice, "update_slice", kPrimitive, 3, 3, kNone},
    {Op::state_read, "state_read", kPrimitive, 1, 1, kNone},
    {Op::state_write, "state_write", kPrimitive, 2, 2, kNone},
}};

constexpr bool rows_follow_the_enum() {
  for (std::size_t i = 0; i < kOps; ++i) {
    if (static_cast<std::size_t>(kTraits[i].op) != i) return false;
  }
  return true;
}
static_assert(rows_follow_the_enum());

}  // namespace

const OpTraits& traits(Op op) {
  return kTraits[static_cast<std::size_t>(op)];
}

std::string_view name(Op op) {
  return traits(op).name;
}

bool is_composite(Op op) {
  return traits(op).level == Level::composite;
}

std::string_view name(StateRole role) {
  switch (role) {
    case StateRole::key:
      return "key";
    case StateRole::value:
      return "value";
    case StateRole::buffer:
      return "buffer";
  }
  __builtin_unreachable();
}

std::string_view name(Activation kind) {
  switch (kind) {
    case Activation::silu:
      return "silu";
    case Activation::gelu_tanh:
      return "gelu_tanh";
    case Activation::gelu_erf:
      return "gelu_erf";
    case Activation::relu:
      return "relu";
  }
  __builtin_unreachable();
}

ValueId Graph::find(std::string_view wanted) const {
  const auto found = std::ranges::find(values, wanted, &Value::name);
  return found == values.end() ? -1 : static_cast<ValueId>(found - values.begin());
}

const State* Graph::state_of(ValueId id) const {
  const auto found = std::ranges::find(states, id, &State::value);
  return found == states.end() ? nullptr : &*found;
}

}  // namespace pastkv::graph
