// Rope tables against those of transformers, and against figures computed apart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "models/model_files.h"
#include "models/rope_config.h"

namespace pastkv::models {
namespace {

using Json = nlohmann::json;
using test::error_of;
using testing::AllOf;
using testing::HasSubstr;

const formats::TensorSource kNoTensors;

graph::RopeAttributes rope(const Json& config, std::int64_t head_dim, std::int64_t max_positions = 2048) {
  return rope_attributes(
      read_hf_rope(HfConfig(config, "config.json", kNoTensors), "full_attention", 10000.0, head_dim, max_positions));
}

void expect_close(float got, double wanted) {
  EXPECT_NEAR(got, wanted, 1e-5 * std::abs(wanted));
}

TEST(RopeTables, AreThoseOfTransformers) {
  std::ifstream file(std::filesystem::path(PASTKV_TEST_DATA) / "models" / "rope_tables.json");
  const Json tables = Json::parse(file);
  ASSERT_GT(tables.size(), 20U);
  for (const Json& table : tables) {
    SCOPED_TRACE(table["config"].dump() + " at " + table["length"].dump());
    const Json& config = table["config"];
    const auto got =
        rope(config, config["head_dim"], config["max_position_embeddings"]).frequencies.at(table["length"]);
    const auto wanted = table["inverse_frequencies"].get<std::vector<double>>();
    ASSERT_EQ(got.inverse_frequencies.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_NEAR(got.inverse_frequencies[i], wanted[i], 2e-6 * wanted[i]);
    expect_close(got.scale, table["scale"]);
  }
}

TEST(RopeTables, OfLlama3BlendTheMiddleAndDivideTheLong) {
  const auto table = [](const std::string& spelling, int head_dim, double factor) {
    return rope({{"rope_theta", 500000.0},
                 {"rope_scaling",
                  {{spelling, "llama3"},
                   {"factor", factor},
                   {"high_freq_factor", 4.0},
                   {"low_freq_factor", 1.0},
                   {"original_max_position_embeddings", 8192}}}},
                head_dim)
        .frequencies.table.inverse_frequencies;
  };
  const auto a = table("rope_type", 64, 32.0);
  const auto plain = rope_frequencies(500000.0, 64);
  for (const auto& [i, wanted] : std::vector<std::pair<std::size_t, double>>{{14, 0.003211445995},
                                                                             {15, 0.001290547928},
                                                                             {16, 0.0004295567966},
                                                                             {17, 9.708287803e-05},
                                                                             {18, 1.946163818e-05},
                                                                             {31, 9.418306725e-08}}) {
    expect_close(a[i], wanted);
  }
  for (std::size_t i = 0; i <= 14; ++i) EXPECT_EQ(a[i], plain[i]);
  // The divisors that a GGUF holds as rope_freqs.weight.
  expect_close(plain[15] / a[15], 1.651329);
  expect_close(plain[17] / a[17], 9.666729);
  expect_close(plain[18] / a[18], 32.0);
  const auto b = table("type", 128, 8.0);
  for (const auto& [i, wanted] : std::vector<std::pair<std::size_t, double>>{{28, 0.003211445995},
                                                                             {29, 0.002166570764},
                                                                             {30, 0.001371893568},
                                                                             {34, 0.0001785078128},
                                                                             {35, 9.556212354e-05},
                                                                             {63, 3.068925989e-07}}) {
    expect_close(b[i], wanted);
  }
}

TEST(RopeTables, OfLongropeAreSizedByThePartThatRotates) {
  const auto config = [](std::size_t count) {
    return Json{{"partial_rotary_factor", 0.75},
                {"original_max_position_embeddings", 4096},
                {"rope_scaling",
                 {{"type", "longrope"},
                  {"short_factor", std::vector<double>(count, 1.0)},
                  {"long_factor", std::vector<double>(count, 2.0)}}}};
  };
  const graph::RopeAttributes attributes = rope(config(48), 128, 131072);
  EXPECT_EQ(attributes.rotary_dim, 96);
  const auto& frequencies = attributes.frequencies;
  EXPECT_EQ(frequencies.switch_length, 4096);
  EXPECT_NEAR(frequencies.at(4096).scale, 1.190238, 1e-6);
  EXPECT_EQ(frequencies.at(4096).inverse_frequencies[0], 1.0F);
  EXPECT_EQ(frequencies.at(4097).inverse_frequencies[0], 0.5F);
  EXPECT_THAT(error_of([&] { rope(config(64), 128, 131072); }),
              AllOf(HasSubstr("rope_scaling.short_factor"), HasSubstr("64"), HasSubstr("48")));
}

TEST(RopeTables, OfGemma3AreScaledOnFullLayersOnly) {
  Json config = {{"model_type", "gemma3_text"},
                 {"head_dim", 256},
                 {"rope_theta", 1000000.0},
                 {"rope_local_base_freq", 10000.0},
                 {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
                 {"num_hidden_layers", 12},
                 {"sliding_window", 1024}};
  const auto check = [&] {
    const ModelConfig read = test::read_config(config);
    const auto second = [&](std::size_t layer) {
      return read.ropes[static_cast<std::size_t>(read.layers[layer].rope)].frequencies.table.inverse_frequencies[1];
    };
    expect_close(second(4), 0.930572041);
    expect_close(second(5), 0.1122108916);
  };
  check();
  config.erase("rope_scaling");
  config.erase("rope_theta");
  config["rope_parameters"] = {
      {"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 1000000.0}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 10000.0}}}};
  check();
}

TEST(RopeTables, OfAPartOfTheHeadTakeThatPartsWidth) {
  struct Case {
    std::string key;
    double part;
    std::int64_t head_dim, rotary_dim;
  };
  for (const Case& expected : {Case{"rotary_pct", 0.5, 8, 4}, Case{"partial_rotary_factor", 0.4, 80, 32},
                               Case{"partial_rotary_factor", 0.25, 64, 16}, Case{"rotary_pct", 1.0, 8, 8}}) {
    const graph::RopeAttributes attributes = rope({{expected.key, expected.part}}, expected.head_dim);
    EXPECT_EQ(attributes.rotary_dim, expected.rotary_dim);
    const auto& table = attributes.frequencies.table.inverse_frequencies;
    ASSERT_EQ(table.size(), static_cast<std::size_t>(expected.rotary_dim / 2));
    expect_close(table[1], std::pow(10000.0, -2.0 / static_cast<double>(expected.rotary_dim)));
  }
}

TEST(RopeTables, EarlyNamesOfLongropeAreKnown) {
  for (const std::string kind : {"su", "yarn", "longrope"}) {
    const Json config = {{"original_max_position_embeddings", 16},
                         {"rope_scaling", {{"type", kind}, {"short_factor", {1, 1}}, {"long_factor", {2, 2}}}}};
    EXPECT_EQ(rope(config, 4, 64).frequencies.rule, graph::RopeRule::two_tables) << kind;
  }
}

TEST(RopeSettings, NewSpellingWinsAndNullIsNothing) {
  EXPECT_EQ(rope({{"rope_scaling", nullptr}, {"rope_parameters", nullptr}}, 8).frequencies.table.inverse_frequencies,
            rope_frequencies(10000.0, 8));
  const Json both = {{"rope_theta", 777.0},
                     {"rope_scaling", {{"type", "linear"}, {"factor", 9.0}}},
                     {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 500.0}}}};
  EXPECT_EQ(rope(both, 8).frequencies.table.inverse_frequencies, rope_frequencies(500.0, 8));
}

TEST(RopeSettings, FaultsAreNamedByKey) {
  const auto line = [](const Json& scaling) { return error_of([&] { rope({{"rope_scaling", scaling}}, 8); }); };
  EXPECT_THAT(line({{"type", "spiral"}}),
              AllOf(HasSubstr("rope_scaling.type"), HasSubstr("spiral"), HasSubstr("llama3, yarn, longrope")));
  EXPECT_THAT(line({{"rope_type", 3}}), HasSubstr("rope_scaling.rope_type: is 3"));
  for (const std::string kind : {"linear", "dynamic", "llama3", "yarn"}) {
    EXPECT_THAT(line({{"type", kind}}), HasSubstr("rope_scaling.factor: is missing")) << kind;
    for (const Json& bad : std::vector<Json>{0, -2, "x", true, Json::array()}) {
      EXPECT_THAT(line({{"type", kind}, {"factor", bad}}), HasSubstr("rope_scaling.factor: is")) << kind << bad;
    }
  }
  EXPECT_THAT(line({{"type", "llama3"}, {"factor", 2}, {"low_freq_factor", 4}, {"high_freq_factor", 4}}),
              HasSubstr("rope_scaling.high_freq_factor"));
  EXPECT_THAT(line({{"type", "longrope"}}), HasSubstr("rope_scaling.short_factor: is missing"));
  EXPECT_THAT(line({{"type", "longrope"}, {"short_factor", {1, 1, 1, 0}}}), HasSubstr("holds 0"));
  for (const double part : {0.0, -1.0, 1.5, 0.1}) {
    EXPECT_THAT(error_of([&] { rope({{"partial_rotary_factor", part}}, 8); }), HasSubstr("partial_rotary_factor"));
  }
  EXPECT_THAT(error_of([&] { rope(Json::object(), 7); }), HasSubstr("head_dim"));
  EXPECT_THAT(error_of([&] { rope({{"rope_scaling", {{"type", "dynamic"}, {"factor", 2}}}}, 2); }),
              HasSubstr("not defined for 2 channels"));
  // A factor that is a number, but makes none of the frequencies.
  EXPECT_THAT(
      error_of([&] {
        test::read_config({{"model_type", "gemma3_text"}, {"rope_scaling", {{"type", "linear"}, {"factor", 1e-39}}}});
      }),
      HasSubstr("rope settings"));
}

}  // namespace
}  // namespace pastkv::models
