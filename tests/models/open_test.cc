// What open_model makes of whole models: names, tied outputs, end tokens, and files that do not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "models/golden.h"
#include "models/model.h"
#include "models/model_files.h"

namespace pastkv::models {
namespace {

using Json = nlohmann::json;
using test::ChangedModel;
using test::error_of;
using test::StoredTensors;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::filesystem::path kModels = std::filesystem::path(PASTKV_TEST_DATA) / "models";
constexpr const char* kEmbedding = "model.embed_tokens.weight";

std::string refusal(const ChangedModel& model) {
  return error_of([&] { open_model(model.path()); });
}

TEST(OpenModel, TellsWhatAModelIs) {
  const Model model = open_model(kModels / "qwen3");
  EXPECT_EQ(model.name, "qwen3");
  EXPECT_EQ(model.config.architecture, "qwen3");
  EXPECT_THAT(model.eos_ids, ElementsAre(2));
  std::uint64_t elements = 0;
  for (const formats::TensorEntry& entry : model.tensors().tensors()) {
    elements += static_cast<std::uint64_t>(entry.elements());
  }
  EXPECT_EQ(model.parameters, elements);
  EXPECT_EQ(open_model(kModels / "qwen3.gguf").parameters, elements);
  EXPECT_EQ(open_model(kModels / "qwen3" / "").name, "qwen3");
  EXPECT_EQ(open_model(kModels / "qwen3.gguf").name, "qwen3");
}

TEST(OpenModel, NothingThereIsSaid) {
  EXPECT_THAT(error_of([] { open_model(kModels / "no_such_model"); }), HasSubstr("does not exist"));
}

TEST(OpenModel, AnUnknownArchitectureListsTheKnown) {
  const ChangedModel model("llama", [](Json& config) { config["model_type"] = "perceiver"; });
  EXPECT_THAT(refusal(model), AllOf(HasSubstr("config.json: key model_type"), HasSubstr("perceiver"),
                                    HasSubstr("llama, mistral, qwen2, qwen3, gemma2"), HasSubstr("openelm")));
  const ChangedModel silent("llama", [](Json& config) { config.erase("model_type"); });
  EXPECT_THAT(refusal(silent), HasSubstr("key model_type: is missing"));
}

TEST(OpenModel, PackedWeightsAreNamedAsSuch) {
  const ChangedModel model("llama", [](Json& config) { config["quantization_config"] = {{"quant_method", "gptq"}}; });
  EXPECT_THAT(refusal(model), AllOf(HasSubstr("quantization_config"), HasSubstr("gptq")));
}

TEST(OpenModel, HugeLayerCountsAreRefusedAtOnce) {
  for (const std::int64_t layers : {std::int64_t{1000000000}, std::int64_t{2000}}) {
    const ChangedModel model("llama", [&](Json& config) { config["num_hidden_layers"] = layers; });
    EXPECT_THAT(refusal(model), testing::AnyOf(HasSubstr("num_hidden_layers"), HasSubstr("2000 layers")));
  }
}

TEST(TiedOutput, AbsentIsTheEmbedding) {
  const Model model = open_model(kModels / "llama_tied");
  EXPECT_TRUE(model.config.tied);
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_EQ(model.tensors().find("lm_head.weight"), nullptr);
}

TEST(TiedOutput, PresentAndEqualIsCountedOnce) {
  const ChangedModel changed("llama_tied", {},
                             [](StoredTensors& tensors) { tensors["lm_head.weight"] = tensors.at(kEmbedding); });
  const Model model = open_model(changed.path());
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_EQ(model.parameters, open_model(kModels / "llama_tied").parameters);
}

TEST(TiedOutput, PresentAndDifferentIsUnusedWithAWarning) {
  const ChangedModel changed("llama_tied", {}, [](StoredTensors& tensors) {
    tensors["lm_head.weight"] = tensors.at(kEmbedding);
    tensors["lm_head.weight"].bytes[100] ^= 1;
  });
  const Model model = open_model(changed.path());
  EXPECT_THAT(model.warnings, ElementsAre(AllOf(HasSubstr("lm_head.weight"), HasSubstr("differs"))));
  EXPECT_EQ(model.graph.find("output.weight"), -1);
}

TEST(TiedOutput, UntiedAndAbsentNamesTensorAndFlag) {
  for (const Json& flag : std::vector<Json>{false, nullptr}) {
    const ChangedModel changed("llama_tied", [&](Json& config) { config["tie_word_embeddings"] = flag; });
    EXPECT_THAT(refusal(changed), AllOf(HasSubstr("lm_head.weight"), HasSubstr("tie_word_embeddings")));
  }
}

TEST(TiedOutput, OfAFamilyThatTiesNeedsNoFlag) {
  const ChangedModel changed("gemma3_pattern", [](Json& config) { config.erase("tie_word_embeddings"); });
  EXPECT_TRUE(open_model(changed.path()).config.tied);
}

TEST(EndTokens, AreThoseOfBothFiles) {
  const ChangedModel changed("llama", [](Json& config) { config["eos_token_id"] = 1; });
  changed.write("generation_config.json", R"({"eos_token_id": [106, 1]})");
  EXPECT_THAT(open_model(changed.path()).eos_ids, ElementsAre(1, 106));
  changed.write("generation_config.json", R"({"eos_token_id": null})");
  EXPECT_THAT(open_model(changed.path()).eos_ids, ElementsAre(1));
}

TEST(EndTokens, OfAWrongKindNameTheFileAndTheKey) {
  for (const Json& bad : std::vector<Json>{true, "x", Json::array(), {1, "x"}, -1, 1.5, {{"id", 1}}}) {
    const ChangedModel changed("llama", [&](Json& config) { config["eos_token_id"] = bad; });
    EXPECT_THAT(refusal(changed), AllOf(HasSubstr("config.json"), HasSubstr("key eos_token_id"))) << bad;
    const ChangedModel other("llama");
    other.write("generation_config.json", Json{{"eos_token_id", bad}}.dump());
    EXPECT_THAT(refusal(other), AllOf(HasSubstr("generation_config.json"), HasSubstr("key eos_token_id"))) << bad;
  }
}

TEST(Tensors, OfAnotherShapeNameBothShapes) {
  const ChangedModel changed("llama", [](Json& config) { config["intermediate_size"] = 40; });
  EXPECT_THAT(refusal(changed), AllOf(HasSubstr("mlp.gate_proj.weight"), HasSubstr("[48, 32]"), HasSubstr("[40, 32]")));
  const ChangedModel vocab("llama", [](Json& config) { config["vocab_size"] = 65; });
  EXPECT_THAT(refusal(vocab), AllOf(HasSubstr(kEmbedding), HasSubstr("[64, 32]"), HasSubstr("[65, 32]")));
}

TEST(OpenModel, ARingOfLinksIsNotCalledAbsent) {
  const std::filesystem::path ring = std::filesystem::path(testing::TempDir()) / "pastkv_ring.gguf";
  std::filesystem::remove(ring);
  std::filesystem::create_symlink(ring, ring);
  EXPECT_THAT(error_of([&] { open_model(ring); }), testing::AllOf(HasSubstr("symbolic links"), HasSubstr("rights")));
}

TEST(Tensors, MissingAreNamedTenAtMostAndCounted) {
  const ChangedModel one("llama", {}, [](StoredTensors& tensors) { tensors.erase("model.norm.weight"); });
  EXPECT_THAT(refusal(one), HasSubstr("1 tensors are missing: model.norm.weight"));
  const ChangedModel many("llama", [](Json& config) { config["num_hidden_layers"] = 4; });
  EXPECT_THAT(refusal(many), AllOf(HasSubstr("18 tensors are missing: model.layers.2."), HasSubstr("and 8 more")));
}

TEST(Tensors, LeftOverAreNamedTenAtMostAndCounted) {
  const ChangedModel one(
      "llama", {}, [](StoredTensors& tensors) { tensors["model.extra.weight"] = tensors.at("model.norm.weight"); });
  EXPECT_THAT(refusal(one), HasSubstr("model.extra.weight"));
  const ChangedModel many("llama", [](Json& config) { config["num_hidden_layers"] = 1; });
  EXPECT_THAT(refusal(many), HasSubstr("9 tensors are of no use to llama: model.layers.1."));
  const ChangedModel long_names("llama", {}, [](StoredTensors& tensors) {
    for (int i = 0; i < 30; ++i) {
      tensors[std::string(5000, 'n') + std::to_string(i)] = tensors.at("model.norm.weight");
    }
  });
  EXPECT_THAT(refusal(long_names), HasSubstr("and 20 more"));
  EXPECT_LT(refusal(long_names).size(), 2000U);
}

TEST(Tensors, ThatNoIndexListsAndNoGraphNeedsAreAWarning) {
  nlohmann::json index = {{"weight_map", nlohmann::json::object()}};
  const test::ChangedModel model("llama", {}, [&](test::StoredTensors& tensors) {
    for (const auto& [name, tensor] : tensors) index["weight_map"][name] = "model-00001-of-00001.safetensors";
    tensors["extra.weight"] = {.shape = {1}, .bytes = std::string(4, '\0')};
  });
  std::filesystem::rename(model.path() / "model.safetensors", model.path() / "model-00001-of-00001.safetensors");
  model.write("model.safetensors.index.json", index.dump());
  EXPECT_THAT(open_model(model.path()).warnings, testing::Contains(testing::HasSubstr("extra.weight")));
}

TEST(Tensors, BuffersOfOldWritersAreNoFault) {
  const ChangedModel changed("llama", {}, [](StoredTensors& tensors) {
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = {.shape = {2}, .bytes = std::string(8, '\0')};
  });
  EXPECT_NO_THROW(open_model(changed.path()));
}

TEST(Tensors, ThatAreNoFloatsAreRefused) {
  const ChangedModel changed("llama", {}, [](StoredTensors& tensors) { tensors["model.norm.weight"].dtype = "I32"; });
  EXPECT_THAT(refusal(changed), AllOf(HasSubstr("model.norm.weight"), HasSubstr("int32")));
}

TEST(EmbeddingScale, OfGemmaIsRoundedToTheTypeOfTheWeights) {
  EXPECT_EQ(open_model(kModels / "gemma3_pattern").config.embedding_scale, 5.656854249F);
  EXPECT_EQ(open_model(kModels / "gemma3_bf16").config.embedding_scale, 5.65625F);
}

TEST(Gguf, OfLlamaRotatesPairsThatLieSideBySide) {
  EXPECT_TRUE(open_model(kModels / "llama_tied.gguf").config.ropes[0].interleaved);
  EXPECT_FALSE(open_model(kModels / "llama_tied").config.ropes[0].interleaved);
  EXPECT_FALSE(open_model(kModels / "qwen2.gguf").config.ropes[0].interleaved);
}

// The number that a metadata key holds is changed in place.
class ChangedGguf {
 public:
  template <class T>
  ChangedGguf(const std::string& golden, const std::string& key, T value)
      : path_(std::filesystem::path(testing::TempDir()) /
              ("pastkv_" + std::to_string(::getpid()) + "_" + golden + ".gguf")) {
    std::ifstream in(kModels / (golden + ".gguf"), std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(in), {}};
    const std::size_t at = bytes.find(key);
    EXPECT_NE(at, std::string::npos) << key;
    std::memcpy(bytes.data() + at + key.size() + sizeof(std::uint32_t), &value, sizeof(value));
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~ChangedGguf() { std::filesystem::remove(path_); }
  ChangedGguf(const ChangedGguf&) = delete;
  ChangedGguf& operator=(const ChangedGguf&) = delete;

  std::string refusal() const {
    return error_of([&] { open_model(path_); });
  }

 private:
  std::filesystem::path path_;
};

TEST(Gguf, HostileNumbersAreRefusedByKey) {
  for (const std::string key :
       {"llama.block_count", "llama.embedding_length", "llama.feed_forward_length", "llama.attention.head_count",
        "llama.attention.head_count_kv", "llama.rope.dimension_count"}) {
    for (const std::uint32_t bad : {0U, 0xFFFFFFFFU}) {
      EXPECT_THAT(ChangedGguf("llama_tied", key, bad).refusal(), HasSubstr("key " + key)) << bad;
    }
  }
  EXPECT_THAT(ChangedGguf("llama_tied", "llama.block_count", 2000U).refusal(), HasSubstr("2000 layers"));
  EXPECT_THAT(ChangedGguf("llama_tied", "llama.block_count", 1U).refusal(), HasSubstr("of no use"));
  EXPECT_THAT(ChangedGguf("llama_tied", "llama.attention.head_count_kv", 3U).refusal(), HasSubstr("groups of 3"));
  EXPECT_THAT(ChangedGguf("llama_tied", "llama.rope.dimension_count", 5U).refusal(), HasSubstr("even number"));
  EXPECT_THAT(ChangedGguf("llama_tied", "llama.embedding_length", 64U).refusal(), HasSubstr("wanted"));
  for (const float bad : {0.0F, -1.0F, std::nanf(""), INFINITY}) {
    EXPECT_THAT(ChangedGguf("llama_tied", "llama.attention.layer_norm_rms_epsilon", bad).refusal(),
                HasSubstr("key llama.attention.layer_norm_rms_epsilon"));
    EXPECT_THAT(ChangedGguf("qwen3", "qwen3.rope.freq_base", bad).refusal(), HasSubstr("key qwen3.rope.freq_base"));
  }
}

TEST(Gguf, AnUnknownArchitectureListsTheKnown) {
  // The value of the key is a string: its length, eight bytes, then its letters.
  const std::string key = "general.architecture";
  std::ifstream in(kModels / "qwen3.gguf", std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  bytes.replace(bytes.find(key) + key.size() + 4 + 8, 5, "qwenX");
  const auto path = std::filesystem::path(testing::TempDir()) / "pastkv_unknown.gguf";
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_THAT(error_of([&] { open_model(path); }), AllOf(HasSubstr("qwenX"), HasSubstr("llama, qwen2, qwen3, gemma2")));
  std::filesystem::remove(path);
}

TEST(Gguf, GivesTheConfigurationOfTheFolder) {
  for (const std::string& name : test::golden_names()) {
    const test::Golden golden = test::load_golden(name);
    if (golden.models.size() < 2) continue;
    SCOPED_TRACE(name);
    const ModelConfig folder = open_model(golden.models[0]).config;
    const ModelConfig gguf = open_model(golden.models[1]).config;
    EXPECT_EQ(gguf.vocab, folder.vocab);
    EXPECT_EQ(gguf.max_positions, folder.max_positions);
    EXPECT_EQ(gguf.tied, folder.tied);
    EXPECT_FLOAT_EQ(gguf.attention_scale, folder.attention_scale);
    EXPECT_FLOAT_EQ(gguf.norm_epsilon, folder.norm_epsilon);
    ASSERT_EQ(gguf.layers.size(), folder.layers.size());
    for (std::size_t i = 0; i < gguf.layers.size(); ++i) {
      EXPECT_EQ(gguf.layers[i].window, folder.layers[i].window);
      EXPECT_EQ(gguf.layers[i].kv_heads, folder.layers[i].kv_heads);
      EXPECT_EQ(gguf.layers[i].intermediate, folder.layers[i].intermediate);
    }
  }
}

}  // namespace
}  // namespace pastkv::models
