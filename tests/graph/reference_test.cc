// Single operations against torch and transformers: tests/tools/make_graph_golden.py.
#include "graph/reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "toy.h"

namespace pastkv::graph {
namespace {

using nlohmann::json;

Tensor tensor_of(const json& listed) {
  return {.shape = listed.at("shape").get<std::vector<std::int64_t>>(),
          .data = listed.at("data").get<std::vector<float>>()};
}

Activation activation_named(const std::string& wanted) {
  for (const Activation kind : {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf, Activation::relu}) {
    if (name(kind) == wanted) return kind;
  }
  throw std::logic_error("no activation " + wanted);
}

RopeAttributes rope_of(const Tensor& frequencies, bool interleaved) {
  return {.frequencies = {.table = {.inverse_frequencies = frequencies.data}},
          .rotary_dim = static_cast<std::int64_t>(2 * frequencies.data.size()),
          .interleaved = interleaved};
}

Tensor dynamic_table(const Tensor& trained, const json& with) {
  RopeFrequencies frequencies;
  frequencies.rule = RopeRule::dynamic;
  frequencies.table.inverse_frequencies = trained.data;
  frequencies.switch_length = with.at("switch_length").get<std::int64_t>();
  frequencies.base = with.at("base").get<double>();
  frequencies.factor = with.at("factor").get<double>();
  const auto total_length = with.at("total_length").get<std::int64_t>();
  return {.shape = trained.shape, .data = frequencies.at(total_length).inverse_frequencies};
}

Tensor computed(const json& one) {
  const json& with = one.at("attributes");
  const std::string operation = with.at("operation");
  const auto input = [&](const char* name) { return tensor_of(one.at("inputs").at(name)); };
  if (operation == "attention") {
    return reference::attention(
        input("q"), input("keys"), input("values"),
        {.scale = with.at("scale"), .window = with.at("window"), .softcap = with.at("softcap")});
  }
  if (operation == "rope") {
    return reference::rope(input("x"), input("positions"), rope_of(input("frequencies"), with.at("interleaved")), 1);
  }
  if (operation == "dynamic_table") return dynamic_table(input("trained"), with);
  if (operation == "rms_norm") {
    return reference::rms_norm(input("x"), input("weight"),
                               {.epsilon = with.at("epsilon"), .weight_offset = with.at("offset")});
  }
  if (operation == "layer_norm") {
    const bool has_bias = one.at("inputs").contains("bias");
    const Tensor bias = has_bias ? input("bias") : Tensor{};
    return reference::layer_norm(input("x"), input("weight"), has_bias ? &bias : nullptr,
                                 {.epsilon = with.at("epsilon")});
  }
  if (operation == "activation") return reference::activation(input("x"), activation_named(with.at("kind")));
  throw std::logic_error("no operation " + operation);
}

TEST(Reference, CountsUpAlongAnAxis) {
  const Tensor x{.shape = {2, 3}, .data = {1, 2, 3, 4, 5, 6}};
  EXPECT_EQ(reference::cumulative_sum(x, 1).data, (std::vector<float>{1, 3, 6, 4, 9, 15}));
  EXPECT_EQ(reference::cumulative_sum(x, -2).data, (std::vector<float>{1, 2, 3, 5, 7, 9}));
}

TEST(Reference, AgreesWithTorch) {
  std::ifstream file(PASTKV_TEST_DATA "/graph/operations.json");
  const json cases = json::parse(file);
  EXPECT_GE(cases.size(), 20U);
  std::set<std::string> seen;
  for (const json& one : cases) {
    SCOPED_TRACE(one.at("name"));
    const Tensor expected = tensor_of(one.at("expected"));
    const Tensor made = computed(one);
    EXPECT_EQ(made.shape, expected.shape);
    ASSERT_EQ(made.data.size(), expected.data.size());
    for (std::size_t i = 0; i < made.data.size(); ++i) {
      EXPECT_NEAR(made.data[i], expected.data[i], 1e-6 + 1e-6 * std::abs(expected.data[i]));
    }
    seen.insert(one.at("attributes").at("operation"));
  }
  EXPECT_EQ(seen.size(), 6U);
}

// Row-major numbers 0, 1, 2, ...
Tensor counted(std::vector<std::int64_t> shape) {
  Tensor x = reference::zeros(std::move(shape));
  for (std::size_t i = 0; i < x.data.size(); ++i) x.data[i] = static_cast<float>(i);
  return x;
}

TEST(Reference, LaysOut) {
  const Tensor x = counted({2, 3});
  EXPECT_EQ(reference::transpose(x, {1, 0}).data, (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(reference::slice(x, -1, 1, 3).data, (std::vector<float>{1, 2, 4, 5}));
  EXPECT_EQ(reference::slice(x, 0, 1, 1).data, std::vector<float>{});
  EXPECT_EQ(reference::expand(counted({3, 1}), {2, 3, 2}).data,
            (std::vector<float>{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}));
  const Tensor y = reference::transpose(counted({2, 3, 4}), {2, 0, 1});
  EXPECT_EQ(y.shape, (std::vector<std::int64_t>{4, 2, 3}));
  EXPECT_EQ((std::vector<float>{y.data.begin(), y.data.begin() + 6}), (std::vector<float>{0, 4, 8, 12, 16, 20}));
  const std::vector<const Tensor*> parts = {&x, &x};
  EXPECT_EQ(reference::concat(parts, 0).data, (std::vector<float>{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(reference::concat(parts, 1).data, (std::vector<float>{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}));
}

TEST(Reference, MultipliesMatricesWithStretchedAxes) {
  const Tensor a = counted({2, 1, 1, 2});  // [[0, 1]] and [[2, 3]]
  const Tensor b = counted({3, 2, 1});     // [[0], [1]], [[2], [3]], [[4], [5]]
  const Tensor y = reference::matmul(a, b);
  EXPECT_EQ(y.shape, (std::vector<std::int64_t>{2, 3, 1, 1}));
  EXPECT_EQ(y.data, (std::vector<float>{1, 3, 5, 3, 13, 23}));
}

TEST(Reference, Reduces) {
  const Tensor x = counted({2, 3});
  EXPECT_EQ(reference::reduce(Op::reduce_sum, x, 0).data, (std::vector<float>{3, 5, 7}));
  EXPECT_EQ(reference::reduce(Op::reduce_mean, x, -1).data, (std::vector<float>{1, 4}));
  EXPECT_EQ(reference::reduce(Op::reduce_max, x, 1).data, (std::vector<float>{2, 5}));
  EXPECT_EQ(reference::reduce(Op::reduce_max, x, 1).shape, (std::vector<std::int64_t>{2, 1}));
}

TEST(Reference, CastsAsItsTypesDo) {
  const Tensor x{.shape = {4}, .data = {1.9F, -1.9F, 0.0F, 70000.0F}};
  EXPECT_EQ(reference::cast(x, tensor::DType::i32).data, (std::vector<float>{1, -1, 0, 70000}));
  EXPECT_EQ(reference::cast(x, tensor::DType::boolean).data, (std::vector<float>{1, 1, 0, 1}));
  EXPECT_EQ(reference::cast(x, tensor::DType::f16).data[0], 1.900390625F);
  EXPECT_EQ(reference::cast(x, tensor::DType::f16).data[3], INFINITY);
  EXPECT_EQ(reference::cast(x, tensor::DType::f32).data, x.data);
}

}  // namespace
}  // namespace pastkv::graph
