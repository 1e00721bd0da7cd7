// GGUF and Hugging Face folders written from every golden model, opened again and run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <map>
#include <numeric>

#include "base/error.h"
#include "formats/safetensors_writer.h"
#include "graph/interpreter.h"
#include "models/golden.h"
#include "models/model.h"
#include "support.h"
#include "targets/gguf/write.h"
#include "targets/hf/write.h"

namespace pastkv::targets {
namespace {

namespace fs = std::filesystem;
using models::Model;
using models::open_model;
using tensor::DType;
using test::error_of;
using test::Golden;
using test::text_of;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Folder {
 public:
  Folder() {
    std::string name = testing::TempDir() + "pastkv_targets_XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

double difference(const Model& model, const Golden& golden) {
  graph::Interpreter interpreter(model.graph, weight_reader(model), {});
  const auto count = static_cast<std::int64_t>(golden.ids.size());
  graph::Tensor ids{.shape = {1, count}, .data = {golden.ids.begin(), golden.ids.end()}};
  graph::Tensor positions = ids;
  std::iota(positions.data.begin(), positions.data.end(), 0.0F);
  const auto outputs = interpreter.run({{"input_ids", ids}, {"position_ids", positions}}, count);
  return test::relative_difference(outputs.at("logits").data, golden.logits);
}

// Golden models whose configuration no GGUF can hold; each is refused.
const std::map<std::string, std::string> kRefused = {{"gemma2_scalar", "attention scale"},
                                                     {"gemma3_pattern", "attention scale"},
                                                     {"gemma3_bf16", "attention scale"},
                                                     {"gemma3_multimodal", "attention scale"},
                                                     {"llama_yarn_mscale", "truncate"}};

class EveryModel : public testing::TestWithParam<std::string> {
 protected:
  Folder folder_;
};

TEST_P(EveryModel, AsGgufGivesTheReferencesLogits) {
  const Golden golden = test::load_golden(GetParam());
  for (const auto& path : golden.models) {
    SCOPED_TRACE(path.filename().string());
    const Model model = open_model(path);
    const fs::path out = folder_ / (path.filename().string() + ".out.gguf");
    if (const auto refused = kRefused.find(GetParam()); refused != kRefused.end()) {
      EXPECT_THAT(error_of([&] { write_gguf(model, out, {}, {}); }), HasSubstr(refused->second));
      EXPECT_FALSE(fs::exists(out));
      continue;
    }
    const Written written = write_gguf(model, out, {}, {});
    EXPECT_EQ(written.bytes, fs::file_size(out));
    EXPECT_THAT(written.files, ElementsAre(out.filename().string()));
    // Beyond what dynamic scaling was trained on, a GGUF has no words.
    if (GetParam() == "llama_dynamic") {
      EXPECT_THAT(written.notes, Contains(HasSubstr("dynamic")));
      continue;
    }
    // Types that a GGUF reader takes as f32 are exact; embeddings of bf16 files are scaled by a rounded number there.
    EXPECT_LT(difference(open_model(out), golden), 1e-4);
  }
}

TEST_P(EveryModel, AsAFolderGivesTheReferencesLogits) {
  const Golden golden = test::load_golden(GetParam());
  for (const auto& path : golden.models) {
    SCOPED_TRACE(path.filename().string());
    const Model model = open_model(path);
    const fs::path out = folder_ / (path.filename().string() + ".out");
    const Written written = write_hf(model, out, {.type = {}, .shard_size = 20000}, {});
    std::uint64_t bytes = 0;
    for (const std::string& file : written.files) bytes += fs::file_size(out / file);
    EXPECT_EQ(written.bytes, bytes);
    EXPECT_LT(difference(open_model(out), golden), 1e-4);
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, EveryModel, testing::ValuesIn(test::golden_names()),
                         [](const auto& tested) { return tested.param; });

Model golden_model(const std::string& name, std::size_t spelling = 0) {
  return open_model(test::load_golden(name).models.at(spelling));
}

TEST(WriteGguf, FromGgufAsStoredIsTheSameFile) {
  const Folder folder;
  for (const char* name : {"llama_llama3", "phi3_longrope", "gemma3", "openelm"}) {
    const Golden golden = test::load_golden(name);
    const Model model = open_model(golden.models.at(1));
    write_gguf(model, folder / "a.gguf", {}, {.replace = true});
    const Model again = open_model(folder / "a.gguf");
    const auto& a = std::get<formats::GgufFile>(model.source);
    const auto& b = std::get<formats::GgufFile>(again.source);
    ASSERT_EQ(a.pairs.size(), b.pairs.size());
    for (std::size_t i = 0; i < a.pairs.size(); ++i) {
      EXPECT_EQ(a.pairs[i].key, b.pairs[i].key);
      EXPECT_TRUE(std::ranges::equal(a.pairs[i].value, b.pairs[i].value)) << a.pairs[i].key;
    }
    EXPECT_EQ(a.tensors.tensors().size(), b.tensors.tensors().size());
    for (const formats::TensorEntry& entry : a.tensors.tensors()) {
      const formats::TensorEntry* same = b.tensors.find(entry.name);
      ASSERT_NE(same, nullptr) << entry.name;
      EXPECT_EQ(same->dtype, entry.dtype);
      EXPECT_TRUE(std::ranges::equal(same->bytes, entry.bytes)) << entry.name;
    }
  }
}

TEST(WriteGguf, EveryTypeIsWrittenAndCloseToWhatItWas) {
  const Folder folder;
  const Golden golden = test::load_golden("llama_tied");
  const Model model = open_model(golden.models.front());
  for (const auto& [type, most] : std::vector<std::pair<GgufType, double>>{{GgufType::f32, 1e-4},
                                                                           {GgufType::f16, 0.05},
                                                                           {GgufType::bf16, 0.2},
                                                                           {GgufType::q8_0, 0.3},
                                                                           {GgufType::q5_1, 2.0},
                                                                           {GgufType::q4_k_m, 3.0}}) {
    write_gguf(model, folder / "a.gguf", {.type = type}, {.replace = true});
    EXPECT_LT(difference(open_model(folder / "a.gguf"), golden), most) << static_cast<int>(type);
  }
}

TEST(WriteGguf, PartsAndWholeAreOneModel) {
  const Folder folder;
  const Golden golden = test::load_golden("qwen2");
  const Model model = open_model(golden.models.front());
  const Written written = write_gguf(model, folder / "a.gguf", {.split_size = 20000}, {});
  EXPECT_GT(written.files.size(), 1U);
  EXPECT_THAT(written.files.front(), HasSubstr("a-00001-of-"));
  EXPECT_LT(difference(open_model(folder / written.files.back()), golden), 1e-4);
}

TEST(WriteGguf, TheSameModelGivesTheSameBytes) {
  const Folder folder;
  const Model model = golden_model("gemma3");
  write_gguf(model, folder / "a.gguf", {.type = GgufType::q4_0}, {});
  write_gguf(model, folder / "b.gguf", {.type = GgufType::q4_0}, {});
  EXPECT_EQ(text_of(folder / "a.gguf"), text_of(folder / "b.gguf"));
}

TEST(WriteGguf, ATiedMatrixIsWrittenOnce) {
  const Folder folder;
  const Model model = golden_model("llama_tied");
  write_gguf(model, folder / "a.gguf", {}, {});
  write_hf(model, folder / "hf", {}, {});
  const std::uint64_t unique = model.parameters * sizeof(float);
  for (const fs::path& path : {folder / "a.gguf", folder / "hf"}) {
    const Model again = open_model(path);
    EXPECT_EQ(again.tensors().find("output.weight"), nullptr);
    EXPECT_EQ(again.tensors().find("lm_head.weight"), nullptr);
    EXPECT_EQ(again.tensors().total_bytes(), unique);
  }
}

TEST(WriteGguf, WhatStandsThereIsReplacedOnlyWhenAsked) {
  const Folder folder;
  const Model model = golden_model("llama");
  std::ofstream(folder / "a.gguf") << "old";
  EXPECT_THAT(error_of([&] { write_gguf(model, folder / "a.gguf", {}, {}); }), HasSubstr("exists"));
  EXPECT_EQ(text_of(folder / "a.gguf"), "old");
  write_gguf(model, folder / "a.gguf", {}, {.replace = true});
  EXPECT_EQ(text_of(folder / "a.gguf").substr(0, 4), "GGUF");
}

// A Hugging Face folder of a Llama with these sizes, all numbers of which are `bits` in bf16.
void make_llama(const fs::path& path, std::int64_t hidden, std::int64_t layers, std::uint16_t bits) {
  OutputFolder folder(path, false);
  std::vector<formats::TensorSpec> tensors;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
    tensors.push_back({.name = name, .dtype = DType::bf16, .shape = std::move(shape)});
  };
  add("model.embed_tokens.weight", {256, hidden});
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    add(layer + "input_layernorm.weight", {hidden});
    for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
      add(layer + "self_attn." + name + ".weight", {hidden, hidden});
    }
    add(layer + "post_attention_layernorm.weight", {hidden});
    add(layer + "mlp.gate_proj.weight", {4 * hidden, hidden});
    add(layer + "mlp.up_proj.weight", {4 * hidden, hidden});
    add(layer + "mlp.down_proj.weight", {hidden, 4 * hidden});
  }
  add("model.norm.weight", {hidden});
  formats::SafetensorsWriter writer(folder, tensors, 32U << 20U);
  const std::vector<std::uint16_t> row(static_cast<std::size_t>(hidden), bits);
  for (const formats::TensorSpec& tensor : tensors) {
    for (std::uint64_t at = 0; at < tensor.bytes(); at += row.size() * 2) writer.write(std::as_bytes(std::span(row)));
  }
  writer.finish();
  OutputFile config = folder.file("config.json");
  config.write(R"({"model_type": "llama", "hidden_size": )" + std::to_string(hidden) + R"(, "intermediate_size": )" +
               std::to_string(4 * hidden) + R"(, "num_hidden_layers": )" + std::to_string(layers) +
               R"(, "num_attention_heads": 8, "vocab_size": 256, "tie_word_embeddings": true})");
  config.commit();
  folder.commit();
}

TEST(Conversion, NumbersThatF16CannotHoldAreAnError) {
  const Folder folder;
  make_llama(folder / "m", 64, 1, 0x47C3);  // 99840
  const Model model = open_model(folder / "m");
  const auto refuses = [](const std::string& error) {
    EXPECT_THAT(error, HasSubstr("tensor "));
    EXPECT_THAT(error, HasSubstr("65504"));
    EXPECT_THAT(error, HasSubstr("bf16 or f32"));
  };
  refuses(error_of([&] { write_gguf(model, folder / "a.gguf", {.type = GgufType::f16}, {}); }));
  refuses(error_of([&] { write_hf(model, folder / "hf", {.type = DType::f16}, {}); }));
  EXPECT_FALSE(fs::exists(folder / "a.gguf"));
  EXPECT_FALSE(fs::exists(folder / "hf"));
  EXPECT_EQ(error_of([&] { write_gguf(model, folder / "b.gguf", {.type = GgufType::bf16}, {}); }), "");
}

// Peak resident memory that `work` adds, in a process of its own.
std::int64_t peak_megabytes(const std::function<void()>& work) {
  int ends[2] = {-1, -1};
  if (::pipe(ends) != 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    rusage before{};
    rusage after{};
    ::getrusage(RUSAGE_SELF, &before);
    work();
    ::getrusage(RUSAGE_SELF, &after);
    const std::int64_t megabytes = (after.ru_maxrss - before.ru_maxrss) / 1024;
    ::_exit(::write(ends[1], &megabytes, sizeof megabytes) == sizeof megabytes ? 0 : 1);
  }
  std::int64_t megabytes = -1;
  if (::read(ends[0], &megabytes, sizeof megabytes) != sizeof megabytes) megabytes = -1;
  ::close(ends[0]);
  ::close(ends[1]);
  ::waitpid(child, nullptr, 0);
  return megabytes;
}

TEST(Conversion, MemoryDoesNotGrowWithTheModel) {
  const Folder folder;
  make_llama(folder / "m", 512, 16, 0x3C00);  // 66 million numbers in tensors of 2 MB at most
  const Model model = open_model(folder / "m");
  ASSERT_GT(model.file_bytes(), 120U << 20U);
  for (const GgufType type : {GgufType::as_stored, GgufType::f16, GgufType::q8_0}) {
    const std::int64_t peak =
        peak_megabytes([&] { write_gguf(model, folder / "a.gguf", {.type = type}, {.replace = true}); });
    EXPECT_GE(peak, 0);
    EXPECT_LT(peak, 48) << static_cast<int>(type);
  }
  const std::int64_t peak = peak_megabytes([&] { write_hf(model, folder / "hf", {.type = DType::f16}, {}); });
  EXPECT_GE(peak, 0);
  EXPECT_LT(peak, 48);
}

TEST(Types, MixedAndLowBitTypesFollowTheTensor) {
  models::WeightRows rows;
  formats::TensorEntry entry{.name = {}, .dtype = DType::f16, .shape = {}, .bytes = {}, .file = nullptr};
  rows.parts = {&entry};
  const auto type = [&](GgufType wanted, const std::string& name, std::vector<std::int64_t> shape, bool tied) {
    rows.name = name;
    rows.shape = std::move(shape);
    return tensor_type(wanted, rows, {.layers = 32, .tied = tied});
  };
  const std::vector<std::int64_t> wide = {8, 512};
  const std::vector<std::int64_t> narrow = {8, 576};
  const std::vector<std::int64_t> odd = {8, 33};
  EXPECT_EQ(type(GgufType::q4_0, "blk.0.attn_norm.weight", {512}, false), DType::f32);
  EXPECT_EQ(type(GgufType::q4_0, "blk.0.attn_q.bias", {512}, false), DType::f32);
  EXPECT_EQ(type(GgufType::q4_0, "blk.0.attn_q.weight", wide, false), DType::q4_0);
  EXPECT_EQ(type(GgufType::q4_0, "output.weight", wide, false), DType::q6_k);
  EXPECT_EQ(type(GgufType::q4_0, "token_embd.weight", wide, false), DType::q4_0);
  EXPECT_EQ(type(GgufType::q4_0, "token_embd.weight", wide, true), DType::q6_k);
  EXPECT_EQ(type(GgufType::q4_0, "token_embd.weight", narrow, true), DType::q8_0);
  EXPECT_EQ(type(GgufType::q8_0, "output.weight", wide, false), DType::q8_0);
  EXPECT_EQ(type(GgufType::q4_k, "blk.0.attn_v.weight", wide, false), DType::q4_k);
  EXPECT_EQ(type(GgufType::q4_k_m, "blk.3.attn_v.weight", wide, false), DType::q6_k);
  EXPECT_EQ(type(GgufType::q4_k_m, "blk.4.attn_v.weight", wide, false), DType::q4_k);
  EXPECT_EQ(type(GgufType::q4_k_m, "blk.6.ffn_down.weight", wide, false), DType::q6_k);
  EXPECT_EQ(type(GgufType::q4_k_m, "blk.28.ffn_down.weight", wide, false), DType::q6_k);
  EXPECT_EQ(type(GgufType::q4_k_m, "blk.28.ffn_up.weight", wide, false), DType::q4_k);
  EXPECT_EQ(type(GgufType::q4_k_m, "blk.9.attn_qkv.weight", wide, false), DType::q5_k);
  EXPECT_EQ(type(GgufType::q4_k, "blk.0.attn_q.weight", narrow, false), DType::q5_0);
  EXPECT_EQ(type(GgufType::q5_k, "blk.0.attn_q.weight", narrow, false), DType::q5_1);
  EXPECT_EQ(type(GgufType::q6_k, "blk.0.attn_q.weight", narrow, false), DType::q8_0);
  EXPECT_EQ(type(GgufType::q4_k, "blk.0.attn_q.weight", odd, false), DType::f16);
  EXPECT_EQ(type(GgufType::q8_0, "blk.0.attn_q.weight", odd, false), DType::f16);
  EXPECT_EQ(type(GgufType::as_stored, "blk.0.attn_q.weight", odd, false), DType::f16);
}

TEST(Types, NamesGoBothWays) {
  EXPECT_EQ(gguf_type_from_name("q4_k_m"), GgufType::q4_k_m);
  EXPECT_EQ(gguf_type_from_name("as-stored"), GgufType::as_stored);
  EXPECT_FALSE(gguf_type_from_name("Q4_K"));
  EXPECT_THAT(gguf_type_names(), HasSubstr("q4_0, q4_1"));
}

}  // namespace
}  // namespace pastkv::targets
