#include "graph/cost.h"

#include <gtest/gtest.h>

#include "toy.h"

namespace pastkv::graph {
namespace {

using tensor::DType;

std::uint64_t f32_bytes(const Value& weight) {
  std::uint64_t count = 4;
  for (const Dim& dim : weight.shape) count *= static_cast<std::uint64_t>(dim.constant());
  return count;
}

// Written out by hand from the sizes of SmolLM2-135M: per layer q and o are 576 x 576, k and v 192 x 576, and the three
// of the MLP 1536 x 576.
constexpr double kLayerMatrices = 2.0 * 576 * 576 + 2.0 * 192 * 576 + 3.0 * 1536 * 576;  // 3,538,944
constexpr double kHead = 49152.0 * 576;
constexpr double kNorms = 61.0 * 576;

TEST(Cost, OfAPrefillIsThatOfItsMatrices) {
  const Cost prompt = cost(toy_decoder(smollm2_135m()), prefill(128), DType::f16, f32_bytes);
  const double linear = 2.0 * 128 * 30 * kLayerMatrices + 2.0 * kHead;  // logits of one row
  const double pairs = 128.0 * 129 / 2;                                 // query i sees i + 1 keys
  const double attention = 30.0 * 9 * pairs * (2.0 * 64 + 2.0 * 64);
  EXPECT_DOUBLE_EQ(prompt.flops, linear + attention);
  EXPECT_DOUBLE_EQ(prompt.flops, 27806367744.0);
  EXPECT_DOUBLE_EQ(prompt.state_bytes, 30.0 * 2 * 3 * 64 * 2 * 128);
}

TEST(Cost, OfAGenerationStepReadsTheModelAndTheCacheOnce) {
  const Cost step = cost(toy_decoder(smollm2_135m()), generation(160), DType::f16, f32_bytes);
  const double parameters = 30 * kLayerMatrices + kHead + kNorms;
  EXPECT_DOUBLE_EQ(parameters, 134515008.0);  // the published count
  EXPECT_DOUBLE_EQ(step.weight_bytes, 4 * parameters);
  EXPECT_DOUBLE_EQ(step.state_bytes, 30.0 * 2 * 3 * 64 * 2 * (160 + 1));
  EXPECT_DOUBLE_EQ(step.flops, 2 * (30 * kLayerMatrices + kHead) + 30.0 * 9 * 161 * 256);
}

TEST(Cost, OfATableLookedIntoIsThatOfItsRows) {
  ToyOptions options = smollm2_135m();
  options.tied = false;
  const Cost step = cost(toy_decoder(options), generation(0), DType::f16, f32_bytes);
  EXPECT_DOUBLE_EQ(step.weight_bytes, 4 * (30 * kLayerMatrices + kHead + kNorms + 576));
  const Cost prompt = cost(toy_decoder(options), prefill(100000), DType::f16, f32_bytes);  // more than the table has
  EXPECT_DOUBLE_EQ(prompt.weight_bytes, 4 * (30 * kLayerMatrices + 2 * kHead + kNorms));
}

TEST(Cost, OfAWindowStopsAtTheWindow) {
  const ToyOptions options{.windows = {4}};  // 4 heads over 2 KV heads of 6, hidden 12
  const Graph graph = toy_decoder(options);
  const double linear = 2.0 * (12 * 24 * 2 + 12 * 12 * 2 + 3 * 12 * 20);
  const double head = 2.0 * 23 * 12;
  const auto attention = [](double pairs) { return 4.0 * pairs * 2 * (6 + 6); };
  const auto flops = [&](const Variant& variant) { return cost(graph, variant, DType::f32, f32_bytes).flops; };
  EXPECT_DOUBLE_EQ(flops(prefill(7)), 7 * linear + head + attention(1 + 2 + 3 + 4 + 4 + 4 + 4));
  EXPECT_DOUBLE_EQ(flops(prefill(3, 2)), 3 * linear + head + attention(3 + 4 + 4));
  EXPECT_DOUBLE_EQ(flops(generation(100)), linear + head + attention(4));
  EXPECT_DOUBLE_EQ(flops(prefill(3, 2, 5)), 5 * flops(prefill(3, 2)));

  const double position = 2.0 * 2 * 6 * 4;  // keys and values, 2 heads of 6, f32
  const auto traffic = [&](const Variant& variant) { return cost(graph, variant, DType::f32, f32_bytes).state_bytes; };
  EXPECT_DOUBLE_EQ(traffic(generation(100)), position * (3 + 1));
  EXPECT_DOUBLE_EQ(traffic(prefill(7)), position * 4);
}

}  // namespace
}  // namespace pastkv::graph
