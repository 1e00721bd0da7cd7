// A language model as data: operations over values, with its caches as a kind of value. Everything else is derived
// from it: shapes, cost, labels, the fast engine, the interpreter, every target.
//
// Two levels of operations live in one type. Composite operations are what a model file speaks. Primitive operations
// are what targets speak. Each composite operation has one expansion into primitives (expand.h), and that expansion is
// its meaning.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/dim.h"
#include "graph/rope.h"
#include "tensor/dtype.h"

namespace pastkv::graph {

using ValueId = std::int32_t;

enum class ValueKind : std::uint8_t {
  input,     // given by the caller
  weight,    // named tensor of the model; its bytes live outside the graph
  constant,  // small numbers that live in the graph (Value::data)
  state,     // a cache: read and changed by operations, kept between calls
  result,    // output of a node
};

enum class StateRole : std::uint8_t {
  key,
  value,
  buffer,  // of an imported file: a tensor of fixed sizes that the graph itself reads and writes as a whole
};
std::string_view name(StateRole role);

// What makes a state more than a tensor. Shape of its Value: [batch, heads, context, head_dim], where batch may be 1;
// of a buffer, any numbers. Layer and role together name it towards the outside (variant.h), whatever its Value is
// called; a buffer's layer is its place among the buffers, and it goes by its Value's name.
struct State {
  ValueId value = -1;
  StateRole role = StateRole::key;
  int layer = 0;
  std::int64_t window = 0;  // 0: every position is kept; else a reader at position p sees only positions > p - window
};

struct Value {
  ValueKind kind = ValueKind::result;
  std::string name;                          // unique in the graph
  tensor::DType dtype = tensor::DType::f32;  // of a weight: f32, whatever it is stored as
  Shape shape;
  std::vector<double> data;  // constants only, row-major
  bool island = false;       // stays f32 where a device computes the rest in f16 (angles of positions)
};

enum class Op : std::uint8_t {
  // --- composite ---
  embedding,     // (ids [batch, query], table [vocab, width]) -> [batch, query, width]
  linear,        // (x [..., in], weight [out, in], bias [out]?) -> [..., out]
  rms_norm,      // (x [..., n], weight [n]) -> [..., n]; statistics in fp32
  layer_norm,    // (x [..., n], weight [n], bias [n]?) -> [..., n]
  rope,          // (x [batch, query, heads, head_dim], positions [batch, query]) -> same shape
  state_update,  // (state, x [batch, query, kv_heads, head_dim]) -> [batch, kv_heads, past + query, head_dim]
  // (q [batch, query, heads, head_dim], keys, values: outputs of state_update, mask?) -> shape of q. The mask stands
  // beside causality and window: boolean (false: not seen) or f32 (added to the scaled, capped scores; below
  // kLowestMask it counts as that), in a shape that broadcasts to [batch, heads, query, past + query]. Model files give
  // none; a target gives what its callers pass. A query that sees nothing mixes values into some finite row.
  attention,
  activation,  // (x) -> x
  softcap,     // (x) -> cap * tanh(x / cap)
  pick_rows,   // (x [batch, query, n]) -> [batch, rows, n]: the last `rows` positions
  scale,       // (x) -> factor * x
  split,       // (x [..., n]) -> several, along the last axis
  // --- both: spoken at either level ---
  add,       // (a, b) -> shapes broadcast as in numpy
  multiply,  // (a, b) -> shapes broadcast
  reshape,   // (x) -> same elements, another shape
  // --- primitive ---
  gather,     // (table [n, ...], indices [...]) -> rows of axis 0: [indices..., ...]
  matmul,     // (a, b): the last two axes, leading axes broadcast
  transpose,  // permutation of the axes: result axis i is axis axes[i] of x
  slice,      // [begin, end) along one axis
  concat,     // along one axis
  expand,     // broadcast to a shape
  subtract,
  divide,
  power,  // (a, b) -> a to the b
  negate,
  absolute,
  exponential,
  square_root,
  tanh,
  erf,
  sine,
  cosine,
  reduce_sum,  // reduce_*: along one axis, which stays with size 1
  reduce_mean,
  reduce_max,
  cumulative_sum,  // along one axis: element i is the sum of those up to and with i
  softmax,         // over the last axis
  range,           // (no input) -> 0, 1, 2, ... as i32, in a shape of one axis
  less,            // -> boolean
  less_equal,
  logical_and,
  select,  // (condition, a, b)
  cast,
  update_slice,  // (x, update, begin i32 [axes of x]) -> x with `update` over the elements from `begin` on
  state_read,    // (state) -> [batch, heads, past, head_dim]; of a buffer, all of it as it stands
  state_write,   // (state, contents [batch, heads, past + query, head_dim]; of a buffer, all of it) -> contents
};

inline constexpr std::size_t kOps = static_cast<std::size_t>(Op::state_write) + 1;

std::string_view name(Op op);
bool is_composite(Op op);  // false for those of both levels

enum class Activation : std::uint8_t { silu, gelu_tanh, gelu_erf, relu };
std::string_view name(Activation kind);

struct NormAttributes {
  float epsilon = 1e-5F;
  float weight_offset = 0.0F;  // y = x_hat * (weight + offset); 1 for Gemma's own files
};
struct RopeAttributes {
  RopeFrequencies frequencies;
  std::int64_t rotary_dim = 0;  // the first channels rotate, the others pass
  bool interleaved = false;     // pairs (2i, 2i + 1) instead of (i, i + rotary_dim / 2)
  friend bool operator==(const RopeAttributes&, const RopeAttributes&) = default;
};
struct AttentionAttributes {
  float scale = 1.0F;
  std::int64_t window = 0;  // query i sees key j iff 0 <= i - j (and i - j < window when it is not 0)
  float softcap = 0.0F;     // 0: none; applied to the scaled scores before the mask
};
// Score of a key that must not be seen: the lowest finite number of f16. Infinity would turn rows to NaN on devices.
inline constexpr float kMaskedScore = -65504.0F;
// Infinity of a caller's mask becomes this: a score added to it stays above kMaskedScore and finite, in f16 too.
inline constexpr float kLowestMask = kMaskedScore / 2;

struct ActivationAttributes {
  Activation kind = Activation::silu;
};
struct SoftcapAttributes {
  float cap = 0.0F;
};
struct ScaleAttributes {
  float factor = 1.0F;
};
struct SplitAttributes {
  std::vector<std::int64_t> sizes;
};
struct ShapeAttributes {
  Shape shape;
};  // reshape, expand, range
struct PermutationAttributes {
  std::vector<int> axes;
};  // transpose
struct AxisAttributes {
  int axis = -1;
};  // concat, reduce_*, cumulative_sum
struct SliceAttributes {
  int axis = 0;
  Dim begin = 0;
  Dim end = 0;
};
struct CastAttributes {
  tensor::DType dtype = tensor::DType::f32;
};

using Attributes =
    std::variant<std::monostate, NormAttributes, RopeAttributes, AttentionAttributes, ActivationAttributes,
                 SoftcapAttributes, ScaleAttributes, SplitAttributes, ShapeAttributes, PermutationAttributes,
                 AxisAttributes, SliceAttributes, CastAttributes>;

struct Node {
  Op op = Op::add;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  Attributes attributes;
};

// Nodes stand in an order in which they can be run. Plain data: copy it, change it, verify it (verify.h).
struct Graph {
  std::string name;  // architecture
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::vector<State> states;

  const Value& value(ValueId id) const { return values[static_cast<std::size_t>(id)]; }
  Value& value(ValueId id) { return values[static_cast<std::size_t>(id)]; }
  ValueId find(std::string_view name) const;   // -1 when absent
  const State* state_of(ValueId value) const;  // null when the value is no state
};

}  // namespace pastkv::graph
