// Configurations as people publish them, and as nobody should: what becomes of each key.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "models/architecture.h"
#include "models/model_files.h"

namespace pastkv::models {
namespace {

using Json = nlohmann::json;
using test::error_of;
using test::read_config;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Json llama(const Json& changes = Json::object()) {
  Json config = {{"model_type", "llama"},      {"vocab_size", 8},          {"hidden_size", 64},
                 {"intermediate_size", 32},    {"num_hidden_layers", 1},   {"num_attention_heads", 4},
                 {"rms_norm_eps", 1e-5},       {"num_key_value_heads", 2}, {"max_position_embeddings", 128},
                 {"tie_word_embeddings", true}};
  config.update(changes);
  return config;
}

Json of_type(const std::string& type, const Json& changes = Json::object()) {
  Json config = llama(changes);
  config["model_type"] = type;
  return config;
}

std::int64_t weight_size(const ModelConfig& config, const std::string& name, std::size_t axis) {
  const graph::Graph graph = find_by_hf(config.architecture)->build(config);
  return graph.value(graph.find(name)).shape.at(axis).constant();
}

std::vector<std::int64_t> windows(const ModelConfig& config) {
  std::vector<std::int64_t> out;
  for (const LayerConfig& layer : config.layers) out.push_back(layer.window);
  return out;
}

TEST(HeadDim, IsTheOneStatedElseHiddenOverHeads) {
  struct Case {
    Json config;
    std::int64_t head_dim, query_rows, key_rows, output_columns;
  };
  const std::vector<Case> cases = {
      {{{"hidden_size", 5120}, {"num_attention_heads", 32}, {"num_key_value_heads", 8}, {"head_dim", 128}},
       128,
       4096,
       1024,
       4096},
      {{{"hidden_size", 5120}, {"num_attention_heads", 64}, {"num_key_value_heads", 8}, {"head_dim", 128}},
       128,
       8192,
       1024,
       8192},
      {{{"hidden_size", 640}, {"num_attention_heads", 4}, {"num_key_value_heads", 1}, {"head_dim", 256}},
       256,
       1024,
       256,
       1024},
      {{{"hidden_size", 4096}, {"num_attention_heads", 32}, {"num_key_value_heads", 8}, {"head_dim", nullptr}},
       128,
       4096,
       1024,
       4096},
  };
  for (const Case& expected : cases) {
    const ModelConfig config = read_config(llama(expected.config));
    EXPECT_EQ(config.layers[0].head_dim, expected.head_dim);
    EXPECT_EQ(weight_size(config, "layers.0.attention.query.weight", 0), expected.query_rows);
    EXPECT_EQ(weight_size(config, "layers.0.attention.key.weight", 0), expected.key_rows);
    EXPECT_EQ(weight_size(config, "layers.0.attention.output.weight", 1), expected.output_columns);
  }
}

TEST(KeyValueHeads, AbsentOrNullMeansAsManyAsHeads) {
  Json absent = llama({{"num_attention_heads", 32}});
  absent.erase("num_key_value_heads");
  EXPECT_EQ(read_config(absent).layers[0].kv_heads, 32);
  EXPECT_EQ(read_config(llama({{"num_attention_heads", 32}, {"num_key_value_heads", nullptr}})).layers[0].kv_heads, 32);
  EXPECT_EQ(read_config(llama({{"num_attention_heads", 32}, {"num_key_value_heads", 1}})).layers[0].kv_heads, 1);
  EXPECT_THAT(error_of([] { read_config(llama({{"num_attention_heads", 32}, {"num_key_value_heads", 6}})); }),
              AllOf(HasSubstr("config.json"), HasSubstr("32"), HasSubstr("6")));
}

TEST(Windows, OfMistralAreTheClassesDefaultWhenAbsentAndNoneWhenNull) {
  EXPECT_THAT(windows(read_config(of_type("mistral"))), ElementsAre(4096));
  EXPECT_THAT(windows(read_config(of_type("mistral", {{"sliding_window", nullptr}}))), ElementsAre(0));
  EXPECT_THAT(windows(read_config(of_type("mistral", {{"sliding_window", 7}}))), ElementsAre(7));
}

TEST(Windows, OfQwenAreIgnoredUnlessAskedFor) {
  const Json sizes = {{"num_hidden_layers", 3}, {"sliding_window", 7}, {"max_window_layers", 1}};
  for (const std::string type : {"qwen2", "qwen3"}) {
    Json config = of_type(type, sizes);
    EXPECT_THAT(windows(read_config(config)), ElementsAre(0, 0, 0));
    config["use_sliding_window"] = true;
    EXPECT_THAT(windows(read_config(config)), ElementsAre(0, 7, 7));
    config["max_window_layers"] = 0;
    EXPECT_THAT(windows(read_config(config)), ElementsAre(7, 7, 7));
  }
}

TEST(Windows, OfGemma2AreOnEvenLayersAndItsScaleIsItsOwn) {
  const ModelConfig config = read_config(of_type("gemma2", {{"num_hidden_layers", 4},
                                                            {"hidden_size", 4608},
                                                            {"num_attention_heads", 32},
                                                            {"num_key_value_heads", 16},
                                                            {"head_dim", 128},
                                                            {"query_pre_attn_scalar", 144},
                                                            {"attn_logit_softcapping", 50.0},
                                                            {"final_logit_softcapping", 30.0},
                                                            {"sliding_window", 4096}}));
  EXPECT_THAT(windows(config), ElementsAre(4096, 0, 4096, 0));
  EXPECT_NEAR(config.attention_scale, 0.0833333333, 1e-8);
  EXPECT_EQ(config.attention_softcap, 50.0F);
  EXPECT_EQ(config.final_softcap, 30.0F);
}

TEST(Windows, OfGemma3LeaveEverySixthLayerFullUnlessTheFileSaysOtherwise) {
  const Json base = {{"num_hidden_layers", 12}, {"sliding_window", 1024}, {"head_dim", 256}};
  const auto full_layers = [](const ModelConfig& config) {
    std::vector<std::size_t> layers;
    for (std::size_t i = 0; i < config.layers.size(); ++i) {
      EXPECT_EQ(config.layers[i].rope, config.layers[i].window == 0 ? 0 : 1);
      if (config.layers[i].window == 0) layers.push_back(i);
    }
    return layers;
  };
  Json config = of_type("gemma3_text", base);
  EXPECT_THAT(full_layers(read_config(config)), ElementsAre(5, 11));
  config["sliding_window_pattern"] = 4;
  EXPECT_THAT(full_layers(read_config(config)), ElementsAre(3, 7, 11));
  config["layer_types"] = Json::array();
  for (int i = 0; i < 12; ++i) config["layer_types"].push_back(i == 2 ? "full_attention" : "sliding_attention");
  EXPECT_THAT(full_layers(read_config(config)), ElementsAre(2));
  config["layer_types"].push_back("full_attention");
  EXPECT_THAT(error_of([&] { read_config(config); }), HasSubstr("layer_types: has 13 entries for 12 layers"));
  config["layer_types"] = std::vector<std::string>(12, "chunked_attention");
  EXPECT_THAT(error_of([&] { read_config(config); }), HasSubstr("chunked_attention"));
}

TEST(Gemma3, TakesItsClassesDefaultsForTheTextPartOfAModelWithVision) {
  const ModelConfig config = read_config(
      {{"model_type", "gemma3"},
       {"text_config",
        {{"hidden_size", 2560}, {"intermediate_size", 10240}, {"num_hidden_layers", 34}, {"sliding_window", 1024}}}});
  EXPECT_EQ(config.layers.size(), 34U);
  EXPECT_EQ(config.vocab, 262208);
  EXPECT_EQ(config.layers[0].heads, 8);
  EXPECT_EQ(config.layers[0].kv_heads, 4);
  EXPECT_EQ(config.layers[0].head_dim, 256);
  EXPECT_EQ(config.norm_epsilon, 1e-6F);
  EXPECT_EQ(config.attention_scale, 0.0625F);
  EXPECT_TRUE(config.tied);
  EXPECT_THAT(error_of([] { read_config({{"model_type", "gemma3"}, {"text_config", {{"hidden_size", "wide"}}}}); }),
              HasSubstr("key text_config.hidden_size: is \"wide\""));
}

TEST(OpenElm, HasHeadsAndWidthsOfEachLayer) {
  const Json base = {
      {"model_type", "openelm"}, {"vocab_size", 8}, {"model_dim", 1280}, {"head_dim", 64}, {"ffn_dim_divisor", 256}};
  Json two = base;
  two.update({{"num_transformer_layers", 2},
              {"num_query_heads", {12, 16}},
              {"num_kv_heads", {3, 4}},
              {"ffn_multipliers", {0.5, 0.73}}});
  const ModelConfig config = read_config(two);
  EXPECT_EQ(weight_size(config, "layers.0.attention.qkv.weight", 0), 1152);
  EXPECT_EQ(weight_size(config, "layers.1.attention.qkv.weight", 0), 1536);
  EXPECT_EQ(weight_size(config, "layers.0.attention.output.weight", 1), 768);
  EXPECT_EQ(weight_size(config, "layers.1.attention.output.weight", 1), 1024);
  EXPECT_EQ(config.layers[0].intermediate, 768);
  EXPECT_EQ(config.layers[1].intermediate, 1024);
  const graph::Graph graph = find_by_hf("openelm")->build(config);
  for (const graph::State& state : graph.states) {
    EXPECT_EQ(graph.value(state.value).shape[1], graph::Dim(state.layer == 0 ? 3 : 4));
    EXPECT_EQ(graph.value(state.value).shape[3], graph::Dim(64));
  }
  two["ffn_multipliers"] = {0.05, 0.26953125};  // below one step; a step more where rounding lost over a tenth
  EXPECT_EQ(read_config(two).layers[0].intermediate, 256);
  EXPECT_EQ(read_config(two).layers[1].intermediate, 512);
  two["ffn_multipliers"] = {0.5, 0.73, 1.0};
  EXPECT_THAT(error_of([&] { read_config(two); }), HasSubstr("ffn_multipliers: has 3 entries for 2 layers"));
  two["num_kv_heads"] = {3};
  EXPECT_THAT(error_of([&] { read_config(two); }), HasSubstr("num_kv_heads: has 1 entries for 2 layers"));
}

TEST(OpenElm, DrawsALineBetweenTwoMultipliers) {
  const ModelConfig config = read_config({{"model_type", "openelm"},
                                          {"vocab_size", 8},
                                          {"model_dim", 1280},
                                          {"head_dim", 64},
                                          {"num_transformer_layers", 4},
                                          {"num_query_heads", {12, 12, 12, 16}},
                                          {"num_kv_heads", {3, 3, 3, 4}},
                                          {"ffn_multipliers", {0.5, 4.0}}});
  std::vector<std::int64_t> widths;  // multipliers 0.5, 1.67, 2.83, 4.0
  for (const LayerConfig& layer : config.layers) widths.push_back(layer.intermediate);
  EXPECT_THAT(widths, ElementsAre(768, 2048, 3584, 5120));
}

TEST(Tying, FollowsTheFamilyWhenTheFileIsSilent) {
  for (const auto& [type, tied] : std::vector<std::pair<std::string, bool>>{{"llama", false},
                                                                            {"mistral", false},
                                                                            {"qwen2", false},
                                                                            {"qwen3", false},
                                                                            {"phi3", false},
                                                                            {"gemma2", true},
                                                                            {"gemma3_text", true}}) {
    Json config = of_type(type);
    config.erase("tie_word_embeddings");
    EXPECT_EQ(read_config(config).tied, tied) << type;
    config["tie_word_embeddings"] = !tied;
    EXPECT_EQ(read_config(config).tied, !tied) << type;
  }
}

TEST(Biases, AreThoseOfTheFamilyAndItsKeys) {
  EXPECT_FALSE(read_config(llama()).attention_bias);
  EXPECT_TRUE(read_config(of_type("qwen2")).attention_bias);
  EXPECT_FALSE(read_config(of_type("qwen2")).output_bias);
  const ModelConfig config = read_config(llama({{"attention_bias", true}, {"mlp_bias", true}}));
  EXPECT_TRUE(config.attention_bias && config.output_bias && config.mlp_bias);
}

// Every key that a family reads, with every kind of value it must not have: one line that names file and key.
TEST(HostileConfig, IsRefusedWithTheKeysName) {
  const std::vector<Json> bad_sizes = {-1,
                                       0,
                                       1000000000,
                                       18446744073709551615ULL,
                                       1e300,
                                       1.5,
                                       "64",
                                       true,
                                       Json::array(),
                                       Json::object(),
                                       std::string(100000, 'x')};
  for (const std::string type : {"llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3_text", "phi3"}) {
    for (const std::string key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                                  "num_attention_heads", "num_key_value_heads", "head_dim"}) {
      for (const Json& bad : bad_sizes) {
        const std::string line = error_of([&] { read_config(of_type(type, {{key, bad}})); });
        EXPECT_THAT(line, AllOf(HasSubstr("config.json: key " + key))) << type << " " << bad.dump().substr(0, 40);
        EXPECT_LT(line.size(), 300U);
      }
    }
    for (const std::string key : {"rms_norm_eps", "rope_theta"}) {
      for (const Json& bad : std::vector<Json>{-1, 0, 1e300, 1e-300, "x", true, Json::array()}) {
        EXPECT_THAT(error_of([&] { read_config(of_type(type, {{key, bad}})); }), HasSubstr("key " + key)) << bad;
      }
    }
    for (const std::string key : {"tie_word_embeddings"}) {
      EXPECT_THAT(error_of([&] { read_config(of_type(type, {{key, "yes"}})); }), HasSubstr("key " + key));
    }
    for (const Json& bad : std::vector<Json>{"x", 1, true, Json::array()}) {
      EXPECT_THAT(error_of([&] { read_config(of_type(type, {{"rope_scaling", bad}})); }),
                  HasSubstr("key rope_scaling"));
    }
  }
  EXPECT_THAT(error_of([] { read_config(of_type("mistral", {{"sliding_window", -4}})); }),
              HasSubstr("key sliding_window: is -4"));
  EXPECT_THAT(error_of([] { read_config(llama({{"hidden_act", "mish"}})); }),
              AllOf(HasSubstr("key hidden_act"), HasSubstr("mish"), HasSubstr("silu")));
}

TEST(HostileConfig, AMissingSizeIsNamed) {
  for (const std::string key : {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"}) {
    Json config = llama();
    config.erase(key);
    EXPECT_THAT(error_of([&] { read_config(config); }), HasSubstr("key " + key + ": is missing"));
  }
}

}  // namespace
}  // namespace pastkv::models
