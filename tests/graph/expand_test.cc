#include "graph/expand.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "graph/interpreter.h"
#include "graph/verify.h"
#include "toy.h"

namespace pastkv::graph {
namespace {

using tensor::DType;

const Dim kBatch = Symbol::batch;
const Dim kQuery = Symbol::query;
const Dim kTotal = kQuery + Symbol::past;
constexpr std::int64_t kPairsOfHeads = 2;

// A graph of one composite operation. Its result is "y".
struct Case {
  std::string name;
  std::function<ValueId(Builder&)> build;
};

ValueId float_input(Builder& b, Shape tail) {
  Shape shape{kBatch, kQuery};
  shape.insert(shape.end(), tail.begin(), tail.end());
  return b.input("x", DType::f32, shape);
}

Case norm_case(std::string name, bool rms, NormAttributes norm, bool bias = true) {
  return {std::move(name), [=](Builder& b) {
            const ValueId x = float_input(b, {9});
            const ValueId weight = b.weight("w", {9});
            if (rms) return b.rms_norm(x, weight, norm);
            return b.layer_norm(x, weight, bias ? b.weight("b", {9}) : -1, norm);
          }};
}

Case rope_case(std::string name, RopeAttributes rope, bool interleaved) {
  rope.interleaved = interleaved;
  return {std::move(name), [=](Builder& b) {
            const ValueId positions = b.input("position_ids", DType::i64, {kBatch, kQuery});
            return b.rope(float_input(b, {3, 8}), positions, rope);
          }};
}

Case attention_case(std::string name, std::int64_t heads, AttentionAttributes attributes, std::int64_t state_window) {
  return {std::move(name), [=](Builder& b) {
            const ValueId x = float_input(b, {kPairsOfHeads, 5});
            const ValueId q = b.input("q", DType::f32, {kBatch, kQuery, heads, 5});
            const ValueId keys = b.state_update(b.state("k", StateRole::key, 0, kPairsOfHeads, 5, state_window), x);
            const ValueId values =
                b.state_update(b.state("v", StateRole::value, 0, kPairsOfHeads, 5, state_window), b.scale(x, -0.5F));
            return b.attention(q, keys, values, attributes);
          }};
}

Case mask_case(std::string name, DType dtype, Shape shape, AttentionAttributes attributes) {
  return {std::move(name), [=](Builder& b) {
            const ValueId q = b.input("q", DType::f32, {kBatch, kQuery, 4, 5});
            const ValueId x = float_input(b, {kPairsOfHeads, 5});
            const ValueId keys = b.state_update(b.state("k", StateRole::key, 0, kPairsOfHeads, 5, 0), x);
            const ValueId values =
                b.state_update(b.state("v", StateRole::value, 0, kPairsOfHeads, 5, 0), b.scale(x, -0.5F));
            return b.attention(q, keys, values, attributes, b.input("mask", dtype, shape));
          }};
}

Case activation_case(Activation kind) {
  return {std::string(name(kind)), [=](Builder& b) { return b.activation(float_input(b, {9}), kind); }};
}

std::vector<Case> cases() {
  return {
      {"embedding",
       [](Builder& b) { return b.embedding(b.input("ids", DType::i32, {kBatch, kQuery}), b.weight("table", {7, 9})); }},
      {"linear", [](Builder& b) { return b.linear(float_input(b, {9}), b.weight("w", {4, 9})); }},
      {"linear with bias",
       [](Builder& b) { return b.linear(float_input(b, {9}), b.weight("w", {4, 9}), b.weight("b", {4})); }},
      {"linear of a vector",
       [](Builder& b) {
         const ValueId row = b.constant("row", {3}, {1.0, -2.0, 0.5});
         return b.add(float_input(b, {4}), b.linear(row, b.weight("w", {4, 3})));
       }},
      norm_case("rms_norm", true, {.epsilon = 1e-5F}),
      norm_case("rms_norm with offset", true, {.epsilon = 1e-2F, .weight_offset = 1.0F}),
      norm_case("layer_norm", false, {.epsilon = 1e-5F}),
      norm_case("layer_norm without bias", false, {.epsilon = 1e-2F, .weight_offset = 1.0F}, false),
      rope_case("rope", plain_rope(8), false),
      rope_case("rope interleaved", plain_rope(8), true),
      rope_case("rope of some channels", plain_rope(4), false),
      rope_case("rope of some channels interleaved", plain_rope(6), true),
      rope_case("rope of two tables", two_table_rope(8, 5), false),
      rope_case("rope dynamic", dynamic_rope(8, 5), false),
      attention_case("attention", kPairsOfHeads, {.scale = 0.5F}, 0),
      attention_case("attention of grouped heads", 6, {.scale = 0.5F}, 0),
      attention_case("attention with window", 4, {.scale = 0.5F, .window = 3}, 3),
      attention_case("attention with window of one", 4, {.scale = 0.5F, .window = 1}, 1),
      attention_case("attention with softcap", 4, {.scale = 2.0F, .window = 4, .softcap = 1.5F}, 0),
      mask_case("attention under a boolean mask", DType::boolean, {kBatch, 1, 1, kTotal}, {.scale = 0.5F}),
      mask_case("attention under a boolean mask and a window", DType::boolean, {kQuery, kTotal},
                {.scale = 0.5F, .window = 3}),
      mask_case("attention under an added mask", DType::f32, {kBatch, 4, kQuery, kTotal}, {.scale = 0.5F}),
      mask_case("attention under an added mask with softcap and window", DType::f32, {kBatch, 1, 1, kTotal},
                {.scale = 2.0F, .window = 4, .softcap = 1.5F}),
      activation_case(Activation::silu),
      activation_case(Activation::gelu_tanh),
      activation_case(Activation::gelu_erf),
      activation_case(Activation::relu),
      {"softcap", [](Builder& b) { return b.softcap(float_input(b, {9}), 0.7F); }},
      {"pick_rows", [](Builder& b) { return b.pick_rows(float_input(b, {9})); }},
      {"scale", [](Builder& b) { return b.scale(float_input(b, {9}), -1.75F); }},
      {"split",
       [](Builder& b) {
         const std::vector<ValueId> parts = b.split(float_input(b, {9}), {4, 1, 4});
         return b.add(b.multiply(parts[0], parts[1]), parts[2]);
       }},
      {"reshape", [](Builder& b) { return b.reshape(float_input(b, {9}), {kBatch, kQuery, 3, 3}); }},
  };
}

Graph graph_of(const Case& one) {
  Builder b("one");
  b.output(one.build(b), "y");
  return b.finish();
}

// Random numbers for every input: floats in (-2, 2), indices below 7, positions that go on from `past`, masks by
// which every third key is not seen.
std::map<std::string, Tensor> random_inputs(const Graph& graph, const Sizes& sizes) {
  std::map<std::string, Tensor> inputs;
  for (const ValueId id : graph.inputs) {
    const Value& value = graph.value(id);
    std::vector<std::int64_t> shape;
    for (const Dim& dim : value.shape) shape.push_back(dim.at(sizes));
    Tensor given = random_tensor(shape, static_cast<std::uint32_t>(id + 10 * sizes.past + 1), 2.0F);
    for (std::size_t i = 0; i < given.data.size(); ++i) {
      if (value.name == "ids") given.data[i] = static_cast<float>((i * 5 + 3) % 7);
      if (value.name == "mask") {
        const bool seen = static_cast<std::int64_t>(i) % (sizes.past + sizes.query) % 3 != 1;
        if (value.dtype == DType::boolean) given.data[i] = seen ? 1.0F : 0.0F;
        if (value.dtype == DType::f32 && !seen) given.data[i] = -std::numeric_limits<float>::infinity();
      }
      if (value.name == "position_ids") {
        given.data[i] = static_cast<float>(sizes.past + static_cast<std::int64_t>(i) % sizes.query);
      }
    }
    inputs.emplace(value.name, std::move(given));
  }
  return inputs;
}

bool has_composite(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const Node& node) { return is_composite(node.op); });
}

TEST(Expand, MeansTheSameForEveryOperation) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const Graph composite = graph_of(one);
    const Graph primitive = expand(composite);
    EXPECT_FALSE(has_composite(primitive));
    EXPECT_EQ(faults(primitive), std::vector<std::string>());
    Interpreter a(composite, random_weights(1.5F), {});
    Interpreter b(primitive, random_weights(1.5F), {});
    std::int64_t past = 0;
    for (const std::int64_t query : {4, 3, 1, 1}) {  // a prefill, a chunk, cached steps
      if (rope_changes(composite, past, past + query)) {
        a.reset();
        b.reset();
        past = 0;
      }
      const auto inputs = random_inputs(composite, {.batch = 2, .query = query, .past = past});
      const Tensor wanted = a.run(inputs, 1).at("y");
      const Tensor made = b.run(inputs, 1).at("y");
      EXPECT_EQ(made.shape, wanted.shape);
      EXPECT_LT(largest_difference(made.data, wanted.data), 4e-6F);
      past += query;
    }
  }
}

// Masks of either kind that let a row see nothing, and keys whose scores are large: still numbers, in f16 too.
TEST(Expand, MasksThatHideEverythingGiveNumbers) {
  for (const DType dtype : {DType::boolean, DType::f32}) {
    const Graph composite = graph_of(mask_case("hidden", dtype, {kBatch, 1, 1, kTotal}, {.scale = 4.0F}));
    auto inputs = random_inputs(composite, {.batch = 1, .query = 3});
    const float hidden = dtype == DType::boolean ? 0.0F : -std::numeric_limits<float>::infinity();
    inputs["mask"].data = {hidden, hidden, dtype == DType::boolean ? 1.0F : 0.0F};
    for (float& value : inputs["x"].data) value *= 20.0F;
    for (const bool f16 : {false, true}) {
      Interpreter a(composite, random_weights(), {.round_to_f16 = f16});
      Interpreter b(expand(composite), random_weights(), {.round_to_f16 = f16});
      const std::vector<float> wanted = a.run(inputs, 1).at("y").data;
      const std::vector<float> made = b.run(inputs, 1).at("y").data;
      EXPECT_TRUE(std::ranges::all_of(wanted, [](float x) { return std::isfinite(x); }));
      EXPECT_LT(largest_difference(made, wanted), f16 ? 0.2F : 1e-5F);
      const std::size_t last = 2 * 4 * 5;  // the last token sees itself alone
      for (std::size_t i = 0; i < 20; ++i) {
        const float own = inputs["x"].data[2 * kPairsOfHeads * 5 + (i / 10) * 5 + i % 5] * -0.5F;
        EXPECT_NEAR(made[last + i], own, f16 ? 0.05F : 1e-4F);
      }
    }
  }
}

TEST(Expand, SharesTheCallersMaskBetweenLayers) {
  const auto nodes = [](int layers, Op op) {
    Builder b("masked");
    const ValueId mask = b.input("mask", DType::f32, {kBatch, 1, 1, kTotal});
    ValueId x = float_input(b, {2, 4});
    for (int layer = 0; layer < layers; ++layer) {
      const std::string at = std::to_string(layer);
      const ValueId keys = b.state_update(b.state("k" + at, StateRole::key, layer, 2, 4, 0), x);
      const ValueId values = b.state_update(b.state("v" + at, StateRole::value, layer, 2, 4, 0), x);
      x = b.attention(x, keys, values, {}, mask);
    }
    b.output(x, "y");
    return std::ranges::count(expand(b.finish()).nodes, op, &Node::op);
  };
  EXPECT_EQ(nodes(1, Op::less), nodes(3, Op::less));
}

TEST(Expand, CoversEveryCompositeOperation) {
  std::vector<bool> seen(kOps, false);
  for (const Case& one : cases()) {
    for (const Node& node : graph_of(one).nodes) seen[static_cast<std::size_t>(node.op)] = true;
  }
  for (std::size_t op = 0; op < kOps; ++op) {
    EXPECT_TRUE(seen[op] || !is_composite(static_cast<Op>(op))) << name(static_cast<Op>(op));
  }
}

// The table of a rope that depends on the length is picked in the graph; one call on either side of the switch.
TEST(Expand, PicksTheRopeTableByTheTotalLength) {
  for (const RopeAttributes& rope : {two_table_rope(8, 5), dynamic_rope(8, 5)}) {
    const Graph composite = graph_of(rope_case("rope", rope, false));
    const Graph primitive = expand(composite);
    for (const std::int64_t query : {5, 6, 40}) {
      Interpreter a(composite, random_weights(), {});
      Interpreter b(primitive, random_weights(), {});
      const auto inputs = random_inputs(composite, {.query = query});
      EXPECT_LT(largest_difference(a.run(inputs, 1).at("y").data, b.run(inputs, 1).at("y").data), 1e-5F);
    }
  }
}

TEST(Expand, MeansTheSameForWholeDecoders) {
  std::vector<ToyOptions> all = varied_decoders();
  all.push_back({.rope = two_table_rope(6, 100)});
  for (const ToyOptions& options : all) {
    const Graph composite = toy_decoder(options);
    const Graph primitive = expand(composite);
    EXPECT_FALSE(has_composite(primitive));
    EXPECT_EQ(primitive.states.size(), composite.states.size());
    Interpreter wanted(composite, random_weights(), {});
    const std::vector<float> logits = run_in_chunks(wanted, some_ids(13), {13});
    for (const std::vector<std::size_t>& chunks : {std::vector<std::size_t>{13}, {7, 1}, {3}}) {
      Interpreter made(primitive, random_weights(), {});
      EXPECT_LT(largest_difference(run_in_chunks(made, some_ids(13), chunks), logits), 1e-5F);
    }
  }
}

TEST(Expand, KeepsInputsOutputsStatesAndWeights) {
  const Graph composite = toy_decoder(varied_decoders()[1]);
  const Graph primitive = expand(composite);
  const auto described = [](const Graph& graph, ValueKind kind) {
    std::vector<std::string> out;
    for (const Value& value : graph.values) {
      if (value.kind == kind) out.push_back(value.name + std::string(tensor::name(value.dtype)) + text(value.shape));
    }
    std::ranges::sort(out);
    return out;
  };
  for (const ValueKind kind : {ValueKind::input, ValueKind::weight, ValueKind::state}) {
    EXPECT_EQ(described(primitive, kind), described(composite, kind));
  }
  ASSERT_EQ(primitive.outputs.size(), 1U);
  EXPECT_EQ(primitive.value(primitive.outputs[0]).name, "logits");
  EXPECT_EQ(primitive.value(primitive.outputs[0]).shape, composite.value(composite.outputs[0]).shape);
  for (std::size_t i = 0; i < composite.states.size(); ++i) {
    EXPECT_EQ(primitive.states[i].layer, composite.states[i].layer);
    EXPECT_EQ(primitive.states[i].role, composite.states[i].role);
    EXPECT_EQ(primitive.states[i].window, composite.states[i].window);
  }
}

TEST(Expand, SharesMasksAndAnglesBetweenLayers) {
  const Graph two = expand(toy_decoder({.windows = {4, 0}}));
  const Graph six = expand(toy_decoder({.windows = {4, 0, 4, 4, 0, 4}}));
  const auto count = [](const Graph& graph, Op op) { return std::ranges::count(graph.nodes, op, &Node::op); };
  for (const Op op : {Op::less_equal, Op::less, Op::cosine, Op::sine}) EXPECT_EQ(count(two, op), count(six, op));
  EXPECT_EQ(count(six, Op::cosine), 1);
}

TEST(Expand, OfPrimitivesIsThemselves) {
  const Graph once = expand(toy_decoder({}));
  const Graph twice = expand(once);
  EXPECT_EQ(once.nodes.size(), twice.nodes.size());
  const auto islands = [](const Graph& graph) { return std::ranges::count(graph.values, true, &Value::island); };
  EXPECT_GT(islands(once), 0);
  EXPECT_EQ(islands(once), islands(twice));
}

// Squares of such rows leave f16; so do positions of a long prompt.
TEST(Expand, StaysFiniteAndCloseInF16) {
  for (const bool rms : {true, false}) {
    const Graph composite = graph_of(norm_case("norm", rms, {.epsilon = 1e-6F}));
    auto inputs = random_inputs(composite, {.query = 3});
    for (std::size_t i = 0; i < 9; ++i) inputs["x"].data[i] *= 10000.0F;
    for (std::size_t i = 9; i < 18; ++i) inputs["x"].data[i] = 0.0F;
    for (std::size_t i = 18; i < 27; ++i) inputs["x"].data[i] *= 1e-3F;
    Interpreter exact(composite, random_weights(1.0F), {});
    Interpreter device(expand(composite), random_weights(1.0F), {.round_to_f16 = true});
    EXPECT_LT(largest_difference(exact.run(inputs, 1).at("y").data, device.run(inputs, 1).at("y").data), 1e-2F);
  }
  const Graph composite = graph_of(rope_case("rope", plain_rope(8), false));
  auto inputs = random_inputs(composite, {.query = 2});
  inputs["position_ids"].data = {8190.0F, 8191.0F};
  Interpreter exact(composite, random_weights(), {});
  Interpreter device(expand(composite), random_weights(), {.round_to_f16 = true});
  EXPECT_LT(largest_difference(exact.run(inputs, 1).at("y").data, device.run(inputs, 1).at("y").data), 1e-2F);
}

// Every result of every node, looked at through a graph that gives them all out.
TEST(Inference, SaysTheShapesThatRunsHave) {
  for (const ToyOptions& options : varied_decoders()) {
    for (Graph graph : {toy_decoder(options), expand(toy_decoder(options))}) {
      graph.outputs.clear();
      for (const Node& node : graph.nodes)
        graph.outputs.insert(graph.outputs.end(), node.outputs.begin(), node.outputs.end());
      Interpreter interpreter(graph, random_weights(), {});
      for (const std::int64_t query : {5, 1, 3}) {
        const Sizes sizes{.batch = 2, .query = query, .past = interpreter.past_length(), .rows = 1};
        const std::vector<int> ids = some_ids(static_cast<int>(query));
        const auto results = interpreter.run(toy_inputs({ids, ids}, sizes.past), sizes.rows);
        for (const auto& [name, result] : results) {
          std::vector<std::int64_t> inferred;
          for (const Dim& dim : graph.value(graph.find(name)).shape) inferred.push_back(dim.at(sizes));
          EXPECT_EQ(result.shape, inferred) << name;
        }
      }
    }
  }
}

// A device that computes in f16 gives about the logits of f32, by the composite operations and by their expansion.
TEST(Expand, OfADecoderIsCloseInF16) {
  for (const ToyOptions& options : varied_decoders()) {
    const Graph composite = toy_decoder(options);
    Interpreter exact(composite, random_weights(), {});
    const std::vector<float> wanted = run_in_chunks(exact, some_ids(13), {9, 1});
    for (const Graph& graph : {composite, expand(composite)}) {
      Interpreter device(graph, random_weights(), {.round_to_f16 = true});
      EXPECT_LT(largest_difference(run_in_chunks(device, some_ids(13), {9, 1}), wanted), 0.03F);
    }
  }
}

TEST(Expand, WritesNoNumberThatF16CannotHold) {
  for (const ToyOptions& options : varied_decoders()) {
    for (const Value& value : expand(toy_decoder(options)).values) {
      for (const double number : value.data) EXPECT_LE(std::abs(number), 65504.0) << value.name;
    }
  }
}

TEST(Expand, RefusesAGraphWithFaults) {
  Graph broken = toy_decoder({});
  broken.outputs.clear();
  EXPECT_THROW(expand(broken), std::logic_error);
}

}  // namespace
}  // namespace pastkv::graph
