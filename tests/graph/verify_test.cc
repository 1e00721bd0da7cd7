#include "graph/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>

#include "graph/expand.h"
#include "toy.h"

namespace pastkv::graph {
namespace {

using tensor::DType;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr ValueId kNowhere = 1 << 20;

// Two layers, one of them a window, with everything a decoder has.
Graph sound() {
  return toy_decoder(varied_decoders()[1]);
}

ValueId id_of(const Graph& graph, std::string_view name) {
  const ValueId id = graph.find(name);
  EXPECT_GE(id, 0) << name;
  return id;
}

Value& value(Graph& graph, std::string_view name) {
  return graph.value(id_of(graph, name));
}

Node& first(Graph& graph, Op op) {
  for (Node& node : graph.nodes) {
    if (node.op == op) return node;
  }
  throw std::logic_error("the graph has no such operation");
}

template <typename Kind>
Kind& attributes(Graph& graph, Op op) {
  return std::get<Kind>(first(graph, op).attributes);
}

// One way to break a sound graph, and what the verifier must say of it.
struct Break {
  std::string says;
  std::function<void(Graph&)> change;
};

void expect_found(const std::function<Graph()>& make, const std::vector<Break>& breaks) {
  for (const Break& one : breaks) {
    Graph graph = make();
    ASSERT_THAT(faults(graph), IsEmpty());
    one.change(graph);
    EXPECT_THAT(faults(graph), Contains(HasSubstr(one.says)));
  }
}

TEST(Verify, FindsNothingInSoundGraphs) {
  for (const ToyOptions& options : varied_decoders()) {
    EXPECT_THAT(faults(toy_decoder(options)), IsEmpty());
    EXPECT_THAT(faults(expand(toy_decoder(options))), IsEmpty());
  }
  EXPECT_THAT(faults(toy_decoder({.rope = dynamic_rope(6, 7)})), IsEmpty());
  EXPECT_THAT(faults(toy_decoder({.rope = two_table_rope(6, 7)})), IsEmpty());
}

TEST(Verify, FindsFaultsOfValues) {
  expect_found(
      sound,
      {
          {"two values named norm.weight", [](Graph& g) { value(g, "embedding.weight").name = "norm.weight"; }},
          {"a value has no name", [](Graph& g) { value(g, "norm.weight").name = ""; }},
          {"norm.weight has shape [query], wants numbers",
           [](Graph& g) { value(g, "norm.weight").shape = {Symbol::query}; }},
          {"norm.weight is f16, wants f32", [](Graph& g) { value(g, "norm.weight").dtype = DType::f16; }},
          {"layers.0.attention.keys is f16, wants f32",
           [](Graph& g) { value(g, "layers.0.attention.keys").dtype = DType::f16; }},
          {"norm.weight is empty", [](Graph& g) { value(g, "norm.weight").shape = {0}; }},
          {"norm.weight has shape [-12]", [](Graph& g) { value(g, "norm.weight").shape = {-12}; }},
          {"holds data but is no constant", [](Graph& g) { value(g, "norm.weight").data = {1.0}; }},
          {"[] holds 0 numbers", [](Graph& g) { g.values.push_back({ValueKind::constant, "c", DType::f32, {}, {}}); }},
          {"c [3] holds 2 numbers",
           [](Graph& g) { g.values.push_back({ValueKind::constant, "c", DType::f32, {3}, {1.0, 2.0}}); }},
      });
}

TEST(Verify, FindsFaultsOfInputsAndOutputs) {
  expect_found(sound,
               {
                   {"input 1048576 does not exist", [](Graph& g) { g.inputs.push_back(kNowhere); }},
                   {"input -1 does not exist", [](Graph& g) { g.inputs.push_back(-1); }},
                   {"input_ids is listed twice as an input", [](Graph& g) { g.inputs.push_back(g.inputs[0]); }},
                   {"norm.weight is listed as an input and is none",
                    [](Graph& g) { g.inputs.push_back(id_of(g, "norm.weight")); }},
                   {"position_ids is an input that is not listed", [](Graph& g) { g.inputs.pop_back(); }},
                   {"the graph has no output", [](Graph& g) { g.outputs.clear(); }},
                   {"output 1048576 does not exist", [](Graph& g) { g.outputs.push_back(kNowhere); }},
                   {"logits is listed twice as an output", [](Graph& g) { g.outputs.push_back(g.outputs[0]); }},
                   {"output norm.weight is made by no node", [](Graph& g) { g.outputs[0] = id_of(g, "norm.weight"); }},
               });
}

TEST(Verify, FindsFaultsOfOrder) {
  expect_found(sound, {
                          {"is used before it is made", [](Graph& g) { std::swap(g.nodes[3], g.nodes[0]); }},
                          {"embedding_0 is made by no node", [](Graph& g) { g.nodes.erase(g.nodes.begin()); }},
                          {"embedding_0 is used before it is made", [](Graph& g) { g.nodes.erase(g.nodes.begin()); }},
                          {"embedding_0 is made twice", [](Graph& g) { g.nodes.insert(g.nodes.begin(), g.nodes[0]); }},
                          {"is used before it is made", [](Graph& g) { g.nodes[1].inputs[0] = g.nodes[1].outputs[0]; }},
                          {"input 1048576 does not exist", [](Graph& g) { g.nodes[1].inputs[0] = kNowhere; }},
                          {"input -1 does not exist", [](Graph& g) { g.nodes[1].inputs[0] = -1; }},
                          {"output 1048576 does not exist", [](Graph& g) { g.nodes[1].outputs[0] = kNowhere; }},
                          {"norm.weight is no result and cannot be made",
                           [](Graph& g) { g.nodes[1].outputs[0] = id_of(g, "norm.weight"); }},
                      });
}

TEST(Verify, FindsFaultsOfForm) {
  expect_found(
      sound,
      {
          {"rms_norm: 1 inputs", [](Graph& g) { first(g, Op::rms_norm).inputs.pop_back(); }},
          {"rms_norm: 3 inputs", [](Graph& g) { first(g, Op::rms_norm).inputs.push_back(id_of(g, "norm.weight")); }},
          {"0 outputs, wants 1", [](Graph& g) { first(g, Op::pick_rows).outputs.clear(); }},
          {"2 outputs, wants 1",
           [](Graph& g) {
             g.values.push_back({ValueKind::result, "extra", DType::f32, {1}, {}});
             g.nodes[1].outputs.push_back(static_cast<ValueId>(g.values.size() - 1));
           }},
          {"rms_norm: attributes of another operation",
           [](Graph& g) { first(g, Op::rms_norm).attributes = ScaleAttributes{}; }},
          {"attention: attributes of another operation",
           [](Graph& g) { first(g, Op::attention).attributes = std::monostate{}; }},
          {"add: attributes of another operation", [](Graph& g) { first(g, Op::add).attributes = AxisAttributes{}; }},
          {"unknown operation", [](Graph& g) { g.nodes[1].op = static_cast<Op>(200); }},
      });
}

TEST(Verify, FindsFaultsOfAttributes) {
  const float nan = std::nanf("");
  const float infinite = std::numeric_limits<float>::infinity();
  expect_found(
      sound,
      {
          {"epsilon -1", [](Graph& g) { attributes<NormAttributes>(g, Op::rms_norm).epsilon = -1.0F; }},
          {"epsilon nan", [=](Graph& g) { attributes<NormAttributes>(g, Op::rms_norm).epsilon = nan; }},
          {"weight offset inf",
           [=](Graph& g) { attributes<NormAttributes>(g, Op::rms_norm).weight_offset = infinite; }},
          {"3 frequencies for 4 rotary channels",
           [](Graph& g) { attributes<RopeAttributes>(g, Op::rope).rotary_dim = 4; }},
          {"5 rotary channels", [](Graph& g) { attributes<RopeAttributes>(g, Op::rope).rotary_dim = 5; }},
          {"0 rotary channels", [](Graph& g) { attributes<RopeAttributes>(g, Op::rope).rotary_dim = 0; }},
          {"8 rotary channels of 6", [](Graph& g) { attributes<RopeAttributes>(g, Op::rope) = plain_rope(8); }},
          {"is not finite",
           [=](Graph& g) { attributes<RopeAttributes>(g, Op::rope).frequencies.table.inverse_frequencies[1] = nan; }},
          {"is not finite",
           [=](Graph& g) { attributes<RopeAttributes>(g, Op::rope).frequencies.table.scale = infinite; }},
          {"switch length 0", [](Graph& g) { attributes<RopeAttributes>(g, Op::rope) = dynamic_rope(6, 0); }},
          {"0 frequencies for 6 rotary channels",
           [](Graph& g) {
             attributes<RopeAttributes>(g, Op::rope) = two_table_rope(6, 7);
             attributes<RopeAttributes>(g, Op::rope).frequencies.long_table = {};
           }},
          {"dynamic base 0",
           [](Graph& g) {
             attributes<RopeAttributes>(g, Op::rope) = dynamic_rope(6, 7);
             attributes<RopeAttributes>(g, Op::rope).frequencies.base = 0.0;
           }},
          {"attention: scale nan", [=](Graph& g) { attributes<AttentionAttributes>(g, Op::attention).scale = nan; }},
          {"attention: window -1", [](Graph& g) { attributes<AttentionAttributes>(g, Op::attention).window = -1; }},
          {"attention: softcap -1",
           [](Graph& g) { attributes<AttentionAttributes>(g, Op::attention).softcap = -1.0F; }},
          {"softcap: cap 0", [](Graph& g) { attributes<SoftcapAttributes>(g, Op::softcap).cap = 0.0F; }},
      });
}

TEST(Verify, FindsFaultsOfShapesAndTypes) {
  expect_found(sound,
               {
                   {"rms_norm_0 has shape [batch, query, 13], follows [batch, query, 12]",
                    [](Graph& g) { value(g, "rms_norm_0").shape[2] = 13; }},
                   {"rms_norm_0 is f16, follows f32", [](Graph& g) { value(g, "rms_norm_0").dtype = DType::f16; }},
                   {"input_ids is f32, wants i32 or i64", [](Graph& g) { value(g, "input_ids").dtype = DType::f32; }},
                   {"linear: ", [](Graph& g) { value(g, "layers.0.mlp.down.weight").shape = {12, 21}; }},
                   {"[batch, query, 24] to [batch, query, 4, 7]",
                    [](Graph& g) { attributes<ShapeAttributes>(g, Op::reshape).shape[3] = 7; }},
                   {"do not broadcast",
                    [](Graph& g) {
                      first(g, Op::attention).inputs.push_back(id_of(g, "input_ids"));
                      value(g, "input_ids").dtype = DType::boolean;
                    }},
                   {"do not broadcast", [](Graph& g) { first(g, Op::multiply).inputs[1] = id_of(g, "embedding_0"); }},
                   {"wants [batch, query, 2, 6]",
                    [](Graph& g) {
                      value(g, "layers.0.attention.keys").shape[1] = 2;
                      first(g, Op::state_update).inputs[1] = first(g, Op::rope).outputs[0];
                    }},
                   {"64 bits",
                    [](Graph& g) {
                      attributes<ShapeAttributes>(g, Op::reshape).shape = {std::numeric_limits<std::int64_t>::max(), 4};
                    }},
               });
}

TEST(Verify, FindsFaultsOfStates) {
  expect_found(
      sound,
      {
          {"layers.0.attention.keys is listed twice", [](Graph& g) { g.states.push_back(g.states[0]); }},
          {"state 1048576 is no value of that kind", [](Graph& g) { g.states[0].value = kNowhere; }},
          {"is no value of that kind", [](Graph& g) { g.states[0].value = id_of(g, "norm.weight"); }},
          {"layers.0.attention.keys is a state that is not listed", [](Graph& g) { g.states.erase(g.states.begin()); }},
          {"is the second key state of layer 0", [](Graph& g) { g.states[1].role = StateRole::key; }},
          {"has layer -1", [](Graph& g) { g.states[0].layer = -1; }},
          {"window -4", [](Graph& g) { g.states[0].window = -4; }},
          {"wants [batch, heads, context, head_dim]",
           [](Graph& g) { value(g, "layers.0.attention.keys").shape[2] = Symbol::past; }},
          {"wants [batch, heads, context, head_dim]",
           [](Graph& g) { value(g, "layers.0.attention.keys").shape.pop_back(); }},
          {"is never written",
           [](Graph& g) {
             g.values.push_back(value(g, "layers.0.attention.keys"));
             g.values.back().name = "idle";
             g.states.push_back({.value = static_cast<ValueId>(g.values.size() - 1), .layer = 9});
           }},
          {"is written after it was written",
           [](Graph& g) {
             Node again = first(g, Op::state_update);
             g.values.push_back(g.value(again.outputs[0]));
             g.values.back().name = "again";
             again.outputs[0] = static_cast<ValueId>(g.values.size() - 1);
             g.nodes.push_back(again);
           }},
          {"rms_norm uses the state layers.0.attention.keys",
           [](Graph& g) { first(g, Op::rms_norm).inputs[0] = id_of(g, "layers.0.attention.keys"); }},
          {"is no state", [](Graph& g) { first(g, Op::state_update).inputs[0] = id_of(g, "norm.weight"); }},
          {"is no key state",
           [](Graph& g) { std::swap(first(g, Op::attention).inputs[1], first(g, Op::attention).inputs[2]); }},
          {"does not come from a state_update",
           [](Graph& g) {
             Node copy = {Op::scale, {first(g, Op::attention).inputs[1]}, {}, ScaleAttributes{}};
             g.values.push_back(g.value(copy.inputs[0]));
             g.values.back().name = "copy";
             copy.outputs = {static_cast<ValueId>(g.values.size() - 1)};
             first(g, Op::attention).inputs[1] = copy.outputs[0];
             const auto place = std::ranges::find(g.nodes, Op::attention, &Node::op);
             g.nodes.insert(place, copy);
           }},
          {"window 0 over state layers.0.attention.keys of window 4",
           [](Graph& g) { attributes<AttentionAttributes>(g, Op::attention).window = 0; }},
          {"window 5 over state layers.0.attention.values of window 4",
           [](Graph& g) { attributes<AttentionAttributes>(g, Op::attention).window = 5; }},
      });
}

TEST(Verify, FindsFaultsOfPrimitives) {
  expect_found(
      [] { return expand(sound()); },
      {
          {"axes are no permutation",
           [](Graph& g) { attributes<PermutationAttributes>(g, Op::transpose).axes = {1, 1}; }},
          {"axes are no permutation", [](Graph& g) { attributes<PermutationAttributes>(g, Op::transpose).axes = {0}; }},
          {"axis 4 of", [](Graph& g) { attributes<AxisAttributes>(g, Op::concat).axis = 4; }},
          {"axis -4 of", [](Graph& g) { attributes<AxisAttributes>(g, Op::reduce_max).axis = -4; }},
          {"of an axis of 6", [](Graph& g) { attributes<SliceAttributes>(g, Op::slice).end = 7; }},
          {"of an axis of 6", [](Graph& g) { attributes<SliceAttributes>(g, Op::slice).begin = -1; }},
          {"[past, 3) of an axis of 6",
           [](Graph& g) { attributes<SliceAttributes>(g, Op::slice).begin = Symbol::past; }},
          {"no cast to q4_0", [](Graph& g) { attributes<CastAttributes>(g, Op::cast).dtype = DType::q4_0; }},
          {"shape [past + query, 1], wants one axis",
           [](Graph& g) { attributes<ShapeAttributes>(g, Op::range).shape.emplace_back(1); }},
          {"logical_and: ", [](Graph& g) { first(g, Op::logical_and).inputs[0] = first(g, Op::range).outputs[0]; }},
          {"select: ", [](Graph& g) { first(g, Op::select).inputs[0] = first(g, Op::range).outputs[0]; }},
          {"less: ", [](Graph& g) { first(g, Op::less).inputs[0] = id_of(g, "norm.weight"); }},
          {"square_root: ", [](Graph& g) { first(g, Op::square_root).inputs[0] = id_of(g, "input_ids"); }},
          {"matmul: ", [](Graph& g) { first(g, Op::matmul).inputs[1] = first(g, Op::matmul).inputs[0]; }},
          {"gather: ", [](Graph& g) { first(g, Op::gather).inputs[1] = id_of(g, "norm.weight"); }},
          {"is read after it was written",
           [](Graph& g) {
             Node again = first(g, Op::state_read);
             g.values.push_back(g.value(again.outputs[0]));
             g.values.back().name = "again";
             again.outputs[0] = static_cast<ValueId>(g.values.size() - 1);
             g.nodes.push_back(again);
           }},
      });
}

TEST(Verify, SaysWhereTheFaultIs) {
  Graph graph = sound();
  graph.nodes[1].inputs.pop_back();
  EXPECT_THAT(faults(graph), Contains("node 1, rms_norm_0: rms_norm: 1 inputs, takes 2"));
}

TEST(Builder, RefusesMistakesAtOnce) {
  Builder b("mistakes");
  const ValueId x = b.input("x", DType::f32, {Symbol::batch, Symbol::query, 8});
  const ValueId weight = b.weight("w", {4, 9});
  EXPECT_THROW(b.linear(x, weight), std::logic_error);
  EXPECT_THROW(b.linear(x, 77), std::logic_error);
  EXPECT_THROW(b.weight("w", {9, 4}), std::logic_error);
  EXPECT_THROW(b.weight("x", {9, 4}), std::logic_error);
  EXPECT_THROW(b.input("w", DType::f32, {1}), std::logic_error);
  EXPECT_THROW(b.input("", DType::f32, {1}), std::logic_error);
  EXPECT_THROW(b.split(x, {3, 4}), std::logic_error);
  EXPECT_THROW(b.split(x, {9, -1}), std::logic_error);
  EXPECT_THROW(b.reshape(x, {Symbol::batch, Symbol::query, 3, 3}), std::logic_error);
  EXPECT_THROW(b.emit(Op::split, {x}, SplitAttributes{.sizes = {4, 4}}, 1), std::logic_error);
  EXPECT_THROW(b.output(99, "y"), std::logic_error);
  EXPECT_THROW(b.output(x, "w"), std::logic_error);
  EXPECT_THROW(b.finish(), std::logic_error);  // no output
}

TEST(Builder, GivesTheSameValueForTheSameWeight) {
  Builder b("tied");
  EXPECT_EQ(b.weight("w", {4, 9}), b.weight("w", {4, 9}));
  const ValueId ids = b.input("ids", DType::i32, {Symbol::batch, Symbol::query});
  b.output(b.linear(b.embedding(ids, b.weight("w", {4, 9})), b.weight("w", {4, 9})), "y");
  EXPECT_EQ(b.finish().values.size(), 4U);
}

TEST(Builder, NamesResultsByOperation) {
  Builder b("names");
  const ValueId x = b.input("scale_0", DType::f32, {Symbol::batch, Symbol::query, 8});
  const ValueId y = b.scale(x, 2.0F);
  EXPECT_EQ(b.graph().value(y).name, "scale_1");  // the first name was taken
  const std::vector<ValueId> parts = b.split(y, {3, 5});
  EXPECT_EQ(b.graph().value(parts[1]).name, "split_0.1");
  EXPECT_EQ(text(b.graph().value(parts[1]).shape), "[batch, query, 5]");
}

}  // namespace
}  // namespace pastkv::graph
