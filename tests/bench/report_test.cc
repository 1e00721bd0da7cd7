#include "bench/report.h"

#include <gtest/gtest.h>

namespace pastkv::bench {
namespace {

ModelMeasurement example() {
  ModelMeasurement model;
  model.name = "Toy";
  model.architecture = "llama";
  model.parameters = 1000;
  model.hash = "xxh3:0";
  model.kernels = "portable";
  model.threads = 2;
  model.load_ms = 3;
  model.state_bytes = 4096;
  Measured prefill;
  prefill.label = "toy_prefill";
  prefill.variant = graph::prefill(128);
  prefill.inputs = {{.name = "input_ids", .dtype = tensor::DType::i64, .shape = {1, 128}}};
  prefill.samples_ns = {100'000'000, 300'000'000, 200'000'000};
  prefill.tokens_per_second = {1280, 426.6667, 640};
  prefill.cold_ms = 400;
  prefill.flops = 2e9;
  prefill.bytes = 1e6;
  Measured generation = prefill;
  generation.label = "toy_generation";
  generation.variant = graph::generation(128);
  generation.samples_ns = {10'000'000};
  generation.tokens_per_second = {100};
  generation.flops = 1e6;
  generation.bytes = 5e7;
  model.variants = {prefill, generation};
  return model;
}

TEST(Report, AResultHasEveryKeyOfTheSchema) {
  const auto results = results_json(example());
  ASSERT_EQ(results.size(), 2U);
  const auto& result = results[0];
  EXPECT_EQ(result["label"], "toy_prefill");
  EXPECT_EQ(result["model"]["architecture"], "llama");
  EXPECT_EQ(result["variant"]["role"], "prefill");
  EXPECT_EQ(result["variant"]["query_length"], 128);
  EXPECT_EQ(result["variant"]["past_length"], 0);
  EXPECT_EQ(result["variant"]["inputs"][0]["dtype"], "int64");
  EXPECT_EQ(result["runtime"]["name"], "pastkv");
  EXPECT_EQ(result["threads"], 2);
  EXPECT_EQ(result["state_bytes"], 4096);
  const auto& metrics = result["metrics"];
  EXPECT_EQ(metrics["load_ms"], 3);
  EXPECT_EQ(metrics["cold_ms"], 400);
  EXPECT_DOUBLE_EQ(metrics["latency_ms"]["median"], 200);
  EXPECT_DOUBLE_EQ(metrics["latency_ms"]["p90"], 280);
  EXPECT_EQ(metrics["latency_ms"]["samples_ns"].size(), 3U);
  EXPECT_DOUBLE_EQ(metrics["tokens_per_second"]["median"], 640);
  EXPECT_EQ(metrics["tokens_per_second"]["ci95"].size(), 2U);
  EXPECT_EQ(results[1]["variant"]["role"], "generation");
  EXPECT_EQ(results[1]["variant"]["past_length"], 128);
  EXPECT_TRUE(results[1]["metrics"]["latency_ms"]["stddev"].is_null());
}

TEST(Report, RooflineHoldsGenerationAgainstMemoryAndPrefillAgainstArithmetic) {
  MachineLimits limits;
  limits.read_bytes_per_second = 1e10;
  limits.f32_ops_per_second = 2e10;
  limits.int8_ops_per_second = 4e10;
  ModelMeasurement model = example();
  auto results = results_json(model);
  add_roofline(results, limits);
  EXPECT_EQ(results[0]["roofline"]["limit"], "compute");
  EXPECT_DOUBLE_EQ(results[0]["roofline"]["fraction"], 2e9 / 0.2 / 2e10);
  EXPECT_EQ(results[1]["roofline"]["limit"], "bandwidth");
  EXPECT_DOUBLE_EQ(results[1]["roofline"]["fraction"], 5e7 / 0.01 / 1e10);

  model.int8_arithmetic = true;
  results = results_json(model);
  add_roofline(results, limits);
  EXPECT_DOUBLE_EQ(results[0]["roofline"]["fraction"], 2e9 / 0.2 / 4e10);
}

TEST(Report, NamesItsSchemaAndTheHost) {
  Host machine;
  machine.processor = "P";
  machine.cores = 4;
  machine.allowed = 2;
  const auto report = report_json(machine, "avx2", {}, results_json(example()));
  EXPECT_EQ(report["schema"], "pastkv.bench/1");
  EXPECT_EQ(report["host"]["processor"], "P");
  EXPECT_EQ(report["host"]["allowed"], 2);
  EXPECT_EQ(report["results"].size(), 2U);
}

}  // namespace
}  // namespace pastkv::bench
