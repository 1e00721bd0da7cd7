#include "graph/variant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/builder.h"

namespace pastkv::graph {
namespace {

using tensor::DType;
using testing::ElementsAre;
using testing::HasSubstr;

// A graph that does nothing but keep caches: what the sizes of states depend on.
Graph states_graph(int layers, std::int64_t heads, std::int64_t head_dim, const std::vector<std::int64_t>& windows) {
  Builder b("states");
  const ValueId x = b.input("x", DType::f32, {Symbol::batch, Symbol::query, heads, head_dim});
  b.input("position_ids", DType::i64, {Symbol::batch, Symbol::query});
  for (int layer = 0; layer < layers; ++layer) {
    const std::int64_t window = windows[static_cast<std::size_t>(layer) % windows.size()];
    for (const StateRole role : {StateRole::key, StateRole::value}) {
      const std::string name = "layer" + std::to_string(layer) + (role == StateRole::key ? "_k" : "_v");
      b.output(b.state_update(b.state(name, role, layer, heads, head_dim, window), x), name + "_new");
    }
  }
  return b.finish();
}

TEST(Label, IsTheSlugAndTheRole) {
  EXPECT_EQ(slug("SmolLM2-135M-Instruct.Q4_1"), "smollm2_135m_instruct_q4_1");
  EXPECT_EQ(slug("SmolLM2-135M"), "smollm2_135m");
  EXPECT_EQ(slug("--a  b!!"), "a_b");
  EXPECT_EQ(slug("Qwen2.5 (\xC3\xA9t\xC3\xA9)"), "qwen2_5_t");
  EXPECT_EQ(slug(""), "");
  EXPECT_EQ(label("SmolLM2-135M-Instruct.Q4_1", Role::prefill), "smollm2_135m_instruct_q4_1_prefill");
  EXPECT_EQ(label("SmolLM2-135M-Instruct.Q4_1", Role::generation), "smollm2_135m_instruct_q4_1_generation");
}

TEST(Variant, BindsTheSizes) {
  const Sizes prompt = prefill(128).sizes;
  EXPECT_EQ(prompt.query, 128);
  EXPECT_EQ(prompt.past, 0);
  EXPECT_EQ(prompt.context, 128);
  const Sizes step = generation(160, 2).sizes;
  EXPECT_EQ(step.batch, 2);
  EXPECT_EQ(step.query, 1);
  EXPECT_EQ(step.past, 160);
  EXPECT_EQ(step.context, 161);
}

TEST(Inputs, AreNamedAsOnnxExportsNameThem) {
  const Graph graph = states_graph(2, 3, 64, {0, 16});
  const std::vector<TensorInfo> listed = inputs(graph, generation(160), DType::f16);
  ASSERT_EQ(listed.size(), 6U);
  EXPECT_EQ(listed[1].name, "position_ids");
  EXPECT_EQ(listed[1].dtype, DType::i64);
  EXPECT_THAT(listed[1].shape, ElementsAre(1, 1));
  EXPECT_EQ(listed[2].name, "past_key_values.0.key");
  EXPECT_EQ(listed[2].dtype, DType::f16);
  EXPECT_THAT(listed[2].shape, ElementsAre(1, 3, 160, 64));
  EXPECT_EQ(listed[3].name, "past_key_values.0.value");
  EXPECT_EQ(listed[5].name, "past_key_values.1.value");
  EXPECT_THAT(listed[5].shape, ElementsAre(1, 3, 15, 64));  // the 16th position of the window is the token itself
}

TEST(Inputs, OfAFirstPrefillHaveNoPast) {
  const std::vector<TensorInfo> listed = inputs(states_graph(1, 2, 8, {4}), prefill(7, 0, 3), DType::f32);
  EXPECT_THAT(listed[0].shape, ElementsAre(3, 7, 2, 8));
  EXPECT_THAT(listed[2].shape, ElementsAre(3, 2, 0, 8));
}

TEST(StateBytes, AreThoseOfTheContext) {
  EXPECT_EQ(state_bytes(states_graph(32, 8, 128, {0}), 8192, 512, DType::f16), 1073741824U);
}

TEST(StateBytes, OfAWindowStopAtTheWindow) {
  const Graph graph = states_graph(2, 1, 256, {512, 0});
  EXPECT_EQ(state_bytes(graph, 100, 512, DType::f16), 2U * (100 + 100) * 256 * 2);
  EXPECT_EQ(state_bytes(graph, 4096, 64, DType::f16), 2U * (512 - 1 + 64 + 4096) * 256 * 2);
  EXPECT_EQ(state_bytes(graph, 4096, 1, DType::q8_0), 2U * (512 + 4096) * (256 / 32 * 34));
}

TEST(StateBytes, RefuseHeadsThatAreNoWholeBlocks) {
  try {
    state_bytes(states_graph(1, 1, 80, {0}), 16, 512, DType::q8_0);
    FAIL() << "80 elements are no whole blocks of 32";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("80 elements"));
  }
}

TEST(StateBytes, RefuseToLeave64Bits) {
  EXPECT_THROW(state_bytes(states_graph(1, 8, 128, {0}), std::int64_t{1} << 60, 512, DType::f32), Error);
}

}  // namespace
}  // namespace pastkv::graph
