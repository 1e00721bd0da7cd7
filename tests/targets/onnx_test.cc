// What is written is read back by the importer, run by the interpreter, and compared with golden logits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/mapped_file.h"
#include "formats/onnx/onnx.pb.h"
#include "formats/onnx/onnx_file.h"
#include "models/golden.h"
#include "targets/imported_decoder.h"
#include "targets/onnx/import.h"
#include "targets/onnx/write.h"

namespace pastkv::targets {
namespace {

namespace fs = std::filesystem;

class OnnxFolder : public testing::TestWithParam<std::string> {
 protected:
  OnnxFolder() : folder_(fs::path(testing::TempDir()) / ("onnx_test_" + GetParam())) { fs::remove_all(folder_); }
  ~OnnxFolder() override { fs::remove_all(folder_); }

  const fs::path folder_;
};

TEST_P(OnnxFolder, GivesTheReferencesLogits) {
  const test::Golden golden = test::load_golden(GetParam());
  for (const fs::path& path : golden.models) {
    const models::Model model = models::open_model(path);
    for (const OnnxOps ops : {OnnxOps::standard, OnnxOps::contrib}) {
      for (const OnnxPrecision precision : {OnnxPrecision::fp32, OnnxPrecision::fp16}) {
        SCOPED_TRACE(path.filename().string() + (ops == OnnxOps::contrib ? " contrib" : " standard"));
        write_onnx(model, folder_, {.ops = ops, .precision = precision}, {.replace = true});
        const ImportedModel imported = import_onnx(folder_);
        EXPECT_EQ(imported.vocab, golden.vocab);
        EXPECT_EQ(imported.parameters, model.parameters);
        const bool f16 = precision == OnnxPrecision::fp16;
        EXPECT_LT(difference(golden, imported, false), f16 ? 2e-2 : 1e-4);
      }
    }
  }
}

// A written model whose message a test then changes.
class OnnxMessage : public testing::Test {
 protected:
  explicit OnnxMessage(const char* name = "llama_tied") {
    fs::remove_all(folder_);
    write_onnx(models::open_model(test::load_golden(name).models[0]), folder_, {}, {.replace = true});
    const auto written = MappedFile::open(file_);
    EXPECT_TRUE(model_.ParseFromArray(written->bytes().data(), static_cast<int>(written->bytes().size())));
  }
  ~OnnxMessage() override { fs::remove_all(folder_); }

  onnx::TensorProto& external() {
    for (onnx::TensorProto& tensor : *model_.mutable_graph()->mutable_initializer()) {
      if (tensor.data_location() == onnx::TensorProto::EXTERNAL) return tensor;
    }
    throw std::logic_error("no external tensor");
  }

  void set_entry(onnx::TensorProto& tensor, const std::string& key, const std::string& value) {
    for (onnx::StringStringEntryProto& entry : *tensor.mutable_external_data()) {
      if (entry.key() == key) entry.set_value(value);
    }
  }

  onnx::NodeProto& first(const std::string& op) {
    for (onnx::NodeProto& node : *model_.mutable_graph()->mutable_node()) {
      if (node.op_type() == op) return node;
    }
    throw std::logic_error("no node " + op);
  }

  ImportedModel imported() {
    std::ofstream(file_, std::ios::binary) << model_.SerializeAsString();
    return import_onnx(folder_);
  }

  // Importing, and then reading every weight, ends in one line that holds each of `parts`.
  void expect_refused(const std::vector<std::string>& parts) {
    try {
      const ImportedModel read = imported();
      for (const graph::Value& value : read.graph.values) {
        if (value.kind == graph::ValueKind::weight) read.weights(value);
      }
      ADD_FAILURE() << "taken, and should say " << parts[0];
    } catch (const Error& error) {
      for (const std::string& part : parts) EXPECT_THAT(error.what(), testing::HasSubstr(part));
      EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("\n")));
    }
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / "onnx_message_test";
  const fs::path file_ = folder_ / "onnx/model.onnx";
  onnx::ModelProto model_;
};

TEST_F(OnnxMessage, ExternalDataStaysInItsFolderAndInItsFile) {
  const std::string name = external().name();
  const std::uint64_t size = fs::file_size(folder_ / "onnx/model.onnx_data");
  std::ofstream(folder_ / "secret") << "secret";
  fs::create_symlink(folder_ / "secret", folder_ / "onnx/link.bin");
  for (const char* location : {"../secret", "../../secret", "link.bin", "sub/../../secret"}) {
    set_entry(external(), "location", location);
    expect_refused({name, "outside the model's folder", location});
  }
  for (const char* location : {"/etc/hostname", ""}) {
    set_entry(external(), "location", location);
    expect_refused({name, "no relative path"});
  }
  set_entry(external(), "location", "absent.bin");
  expect_refused({name, "'absent.bin' is missing"});
  set_entry(external(), "location", "sub/../model.onnx_data");
  EXPECT_NO_THROW(imported());
  for (const std::string& offset : {std::to_string(size), std::string("18446744073709551615")}) {
    set_entry(external(), "offset", offset);
    expect_refused({name, "external data at byte " + offset});
  }
  for (const char* offset : {"-1", "", "0x10", "1 "}) {
    set_entry(external(), "offset", offset);
    expect_refused({name, "is no number of bytes"});
  }
}

TEST_F(OnnxMessage, LengthOfExternalDataFollowsFromTheShape) {
  onnx::TensorProto& tensor = external();
  set_entry(tensor, "length", "12");
  expect_refused({tensor.name(), "external data of 12 bytes"});
  for (int i = 0; i < tensor.external_data_size(); ++i) {
    if (tensor.external_data(i).key() == "length") tensor.mutable_external_data()->DeleteSubrange(i, 1);
  }
  EXPECT_NO_THROW(imported());
  tensor.set_dims(0, std::int64_t{1} << 62);
  expect_refused({tensor.name(), "leaves 64 bits"});
  tensor.set_dims(0, -1);
  expect_refused({tensor.name(), "negative size"});
}

TEST_F(OnnxMessage, FaultsOfTheGraphAreNamed) {
  const onnx::ModelProto sound = model_;
  onnx::NodeProto& cosine = first("Cos");
  cosine.set_op_type("Mystery");
  expect_refused({cosine.name(), "Mystery is not known"});
  model_ = sound;
  first("Cos").set_domain("some.vendor");
  expect_refused({"some.vendor.Cos is not known"});
  model_ = sound;
  first("Cos").set_input(0, first("Softmax").output(0));
  expect_refused({"in a circle"});
  model_ = sound;
  first("Cos").set_input(0, "nothing");
  expect_refused({"'nothing' is made nowhere"});
  model_ = sound;
  first("Gemm").mutable_output()->Clear();
  expect_refused({"Gemm"});
  model_ = sound;
  first("Gemm").set_input(1, external().name());
  first("Gemm").set_input(0, "input_ids");
  expect_refused({"Gemm"});
  model_ = sound;
  model_.mutable_graph()->mutable_input()->DeleteSubrange(0, 1);
  expect_refused({"input_ids"});
}

TEST_F(OnnxMessage, DamagedFilesAreRefused) {
  const std::string whole = model_.SerializeAsString();
  for (const std::size_t kept : {std::size_t{0}, whole.size() / 3, whole.size() - 1}) {
    std::ofstream(file_, std::ios::binary) << whole.substr(0, kept);
    EXPECT_THROW(import_onnx(folder_), Error) << kept;
  }
  fs::remove(file_);
  EXPECT_THROW(import_onnx(folder_), Error);
}

TEST_F(OnnxMessage, TheOpsetIsThatOfTheStandardWhereverItStands) {
  const auto opset = [&](const std::vector<std::pair<std::string, int>>& sets) {
    model_.clear_opset_import();
    for (const auto& [domain, version] : sets) {
      onnx::OperatorSetIdProto& set = *model_.add_opset_import();
      set.set_domain(domain);
      set.set_version(version);
    }
    return imported().facts.at(0).second;
  };
  EXPECT_EQ(opset({{"com.microsoft", 1}, {"", 18}}), "18");
  EXPECT_EQ(opset({{"ai.onnx", 17}}), "17");
  EXPECT_THROW(opset({{"com.microsoft", 1}}), Error);
}

TEST_F(OnnxMessage, InputsAreThoseOfTheContract) {
  std::vector<std::string> inputs;
  for (const onnx::ValueInfoProto& input : model_.graph().input()) {
    std::string text = input.name() + " [";
    for (const auto& dim : input.type().tensor_type().shape().dim()) {
      text +=
          (text.back() == '[' ? "" : ", ") + (dim.has_dim_param() ? dim.dim_param() : std::to_string(dim.dim_value()));
    }
    inputs.push_back(text + "]");
  }
  ASSERT_GE(inputs.size(), 5U);
  EXPECT_EQ(inputs[0], "input_ids [batch_size, sequence_length]");
  EXPECT_EQ(inputs[1], "attention_mask [batch_size, past_sequence_length + sequence_length]");
  EXPECT_EQ(inputs[2], "position_ids [batch_size, sequence_length]");
  EXPECT_THAT(inputs[3],
              testing::MatchesRegex("past_key_values.0.key .batch_size, [0-9]+, past_sequence_length, [0-9]+."));
  EXPECT_EQ(model_.graph().output(0).name(), "logits");
  EXPECT_EQ(model_.graph().output(1).name(), "present.0.key");
  EXPECT_EQ(model_.graph().output(2).name(), "present.0.value");
}

// One matrix is the table of the embedding and the head: the file holds it once, and every tensor at a page of its own.
TEST_F(OnnxMessage, TiedWeightsAreWrittenOnceAndAligned) {
  const models::Model model = models::open_model(test::load_golden("llama_tied").models[0]);
  std::uint64_t bytes = 0;
  std::int64_t elements = 0;
  for (const onnx::TensorProto& tensor : model_.graph().initializer()) {
    if (tensor.data_location() != onnx::TensorProto::EXTERNAL) continue;
    std::int64_t count = 1;
    for (const std::int64_t size : tensor.dims()) count *= size;
    elements += count;
    for (const onnx::StringStringEntryProto& entry : tensor.external_data()) {
      if (entry.key() == "location") {
        EXPECT_EQ(entry.value(), "model.onnx_data");
      }
      if (entry.key() == "offset") {
        EXPECT_EQ(std::stoull(entry.value()) % 4096, 0U);
      }
      if (entry.key() == "length") bytes += std::stoull(entry.value());
    }
  }
  EXPECT_EQ(static_cast<std::uint64_t>(elements), model.parameters);
  EXPECT_EQ(bytes, model.parameters * sizeof(float));
}

TEST_F(OnnxMessage, IsTheSameEachTime) {
  const std::string before = model_.SerializeAsString();
  write_onnx(models::open_model(test::load_golden("llama_tied").models[0]), folder_, {}, {.replace = true});
  const auto again = MappedFile::open(file_);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(again->bytes().data()), again->bytes().size()), before);
}

// Blocks of 8 bits lose little, of 4 more; both dialects hold the same numbers.
TEST(OnnxBlocks, BothDialectsHoldTheSameNumbers) {
  const fs::path folder = fs::path(testing::TempDir()) / "onnx_blocks_test";
  const test::Golden golden = test::load_golden("qwen2");
  const models::Model model = models::open_model(golden.models[0]);
  for (const OnnxPrecision precision : {OnnxPrecision::int8, OnnxPrecision::int4}) {
    std::vector<float> before;
    for (const OnnxOps ops : {OnnxOps::standard, OnnxOps::contrib}) {
      write_onnx(model, folder, {.ops = ops, .precision = precision}, {.replace = true});
      const ImportedModel imported = import_onnx(folder);
      ImportedDecoder decoder(imported);
      const std::vector<float> logits = decoder.extend(golden.ids, 1);
      if (!before.empty()) {
        EXPECT_LT(test::relative_difference(logits, before), 1e-4);
      }
      before = logits;
    }
  }
  fs::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Golden, OnnxFolder, testing::ValuesIn(test::golden_names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace pastkv::targets
