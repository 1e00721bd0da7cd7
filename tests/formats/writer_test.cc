// What the writers write, read back by the readers; and a file of the reference writer, written again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "formats/gguf.h"
#include "formats/gguf_writer.h"
#include "formats/safetensors.h"
#include "formats/safetensors_writer.h"
#include "golden.h"
#include "support.h"

namespace pastkv::formats {
namespace {

namespace fs = std::filesystem;
using tensor::DType;
using test::text_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Tensors of 24, 12, 0, 40 and 4 bytes, and bytes that tell where they stand.
const std::vector<TensorSpec> kTensors = {{.name = "a", .dtype = DType::f32, .shape = {2, 3}},
                                          {.name = "b", .dtype = DType::f16, .shape = {6}},
                                          {.name = "empty", .dtype = DType::f32, .shape = {0, 4}},
                                          {.name = "c", .dtype = DType::bf16, .shape = {4, 5}},
                                          {.name = "d", .dtype = DType::f32, .shape = {}}};

std::string payload(std::size_t size) {
  std::string bytes;
  for (std::size_t i = 0; i < size; ++i) bytes += static_cast<char>(i);
  return bytes;
}

// Hands over each tensor in pieces of 7 bytes.
template <typename Writer>
void write_payload(Writer& writer, const std::vector<TensorSpec>& tensors) {
  std::size_t total = 0;
  for (const TensorSpec& tensor : tensors) total += tensor.bytes();
  const std::string all = payload(total);
  std::size_t at = 0;
  for (const TensorSpec& tensor : tensors) {
    for (std::size_t left = tensor.bytes(); left > 0;) {
      const std::size_t count = std::min<std::size_t>(left, 7);
      writer.write(std::as_bytes(std::span(all).subspan(at, count)));
      at += count;
      left -= count;
    }
  }
}

void expect_payload(const TensorSource& source, const std::vector<TensorSpec>& tensors) {
  std::size_t at = 0;
  std::size_t total = 0;
  for (const TensorSpec& tensor : tensors) total += tensor.bytes();
  const std::string all = payload(total);
  EXPECT_EQ(source.tensors().size(), tensors.size());
  for (const TensorSpec& tensor : tensors) {
    const TensorEntry* entry = source.find(tensor.name);
    ASSERT_NE(entry, nullptr) << tensor.name;
    EXPECT_EQ(entry->dtype, tensor.dtype);
    EXPECT_EQ(entry->shape, tensor.shape);
    const std::string bytes(reinterpret_cast<const char*>(entry->bytes.data()), entry->bytes.size());
    EXPECT_EQ(bytes, all.substr(at, tensor.bytes()));
    at += tensor.bytes();
  }
}

std::vector<std::string> write_shards(const fs::path& folder, std::uint64_t shard_size) {
  OutputFolder out(folder, true);
  SafetensorsWriter writer(out, kTensors, shard_size);
  write_payload(writer, kTensors);
  std::vector<std::string> files = writer.finish();
  out.commit();
  return files;
}

TEST(SplitIntoFiles, FillsEachFileAndCutsNoTensor) {
  EXPECT_THAT(split_into_files(kTensors, 0), ElementsAre(5));
  EXPECT_THAT(split_into_files(kTensors, 36), ElementsAre(3, 1, 1));
  EXPECT_THAT(split_into_files(kTensors, 1), ElementsAre(1, 1, 1, 1, 1));
  EXPECT_THAT(split_into_files({}, 1), ElementsAre(0));
  EXPECT_EQ(part_suffix(0, 12), "-00001-of-00012");
}

TEST(SafetensorsWriter, OneFileIsReadBack) {
  const TestFolder folder;
  const auto files = write_shards(folder.path() / "m", 0);
  EXPECT_THAT(files, ElementsAre("model.safetensors"));
  TensorSource source;
  read_safetensors(folder.path() / "m/model.safetensors", source);
  expect_payload(source, kTensors);
}

TEST(SafetensorsWriter, ShardsAreReadBackByTheirIndex) {
  const TestFolder folder;
  const auto files = write_shards(folder.path() / "m", 36);
  EXPECT_THAT(files, ElementsAre("model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                                 "model-00003-of-00003.safetensors", "model.safetensors.index.json"));
  TensorSource source;
  std::vector<std::string> warnings;
  read_safetensors_index(folder.path() / "m/model.safetensors.index.json", source, warnings);
  EXPECT_THAT(warnings, IsEmpty());
  expect_payload(source, kTensors);
  EXPECT_THAT(text_of(folder.path() / "m" / files.back()), HasSubstr("\"total_size\": 80"));
}

TEST(SafetensorsWriter, TheSameTensorsGiveTheSameBytes) {
  const TestFolder folder;
  const auto files = write_shards(folder.path() / "m", 36);
  write_shards(folder.path() / "n", 36);
  for (const std::string& file : files) {
    EXPECT_EQ(text_of(folder.path() / "m" / file), text_of(folder.path() / "n" / file)) << file;
  }
}

TEST(SafetensorsWriter, WhatWasNotFinishedIsAMistake) {
  const TestFolder folder;
  OutputFolder out(folder.path() / "m", false);
  SafetensorsWriter writer(out, kTensors, 0);
  EXPECT_THROW(writer.finish(), std::logic_error);
  EXPECT_THROW(writer.write(std::vector<std::byte>(81)), std::logic_error);
}

const std::vector<TensorSpec> kGgufTensors = {{.name = "a", .dtype = DType::f32, .shape = {2, 3}},
                                              {.name = "b", .dtype = DType::q8_0, .shape = {2, 32}},
                                              {.name = "c", .dtype = DType::bf16, .shape = {4, 5}}};

GgufMetadata every_kind() {
  GgufMetadata metadata;
  metadata.set_string("general.architecture", "none yet");
  metadata.set_bool("bool", true);
  metadata.set_u16("u16", 65535);
  metadata.set_u32("u32", 4000000000U);
  metadata.set_i32("i32", -5);
  metadata.set_f32("f32", 0.1F);
  metadata.set_bools("bools", {true, false});
  metadata.set_i32s("i32s", std::vector<std::int32_t>{-1, 2});
  metadata.set_f32s("f32s", std::vector<float>{0.5F});
  metadata.set_strings("strings", std::vector<std::string_view>{"", "\xE2\x96\x81x"});
  metadata.set_string("gone", "x");
  metadata.remove("gone");
  metadata.set_string("general.architecture", "llama");
  return metadata;
}

std::vector<fs::path> write_gguf(const fs::path& path, std::uint64_t split_size) {
  GgufWriter writer(path, false, every_kind(), kGgufTensors, split_size);
  write_payload(writer, kGgufTensors);
  const std::uint64_t size = writer.size();
  std::vector<fs::path> files = writer.commit();
  std::uint64_t sum = 0;
  for (const fs::path& file : files) sum += fs::file_size(file);
  EXPECT_EQ(size, sum);
  return files;
}

void expect_every_kind(const GgufFile& file) {
  EXPECT_EQ(file.require_string("general.architecture"), "llama");
  EXPECT_EQ(file.find_bool("bool"), true);
  EXPECT_EQ(file.require_int("u16"), 65535);
  EXPECT_EQ(file.require_int("u32"), 4000000000);
  EXPECT_EQ(file.require_int("i32"), -5);
  EXPECT_EQ(file.require_float("f32"), static_cast<double>(0.1F));
  EXPECT_EQ(std::get<std::vector<bool>>(file.metadata.at("bools")), (std::vector<bool>{true, false}));
  EXPECT_THAT(file.find_ints("i32s").value(), ElementsAre(-1, 2));
  EXPECT_THAT(file.find_floats("f32s").value(), ElementsAre(0.5));
  EXPECT_THAT(*file.find_strings("strings"), ElementsAre("", "\xE2\x96\x81x"));
  EXPECT_FALSE(file.metadata.contains("gone"));
  EXPECT_EQ(file.pairs.front().key, "general.architecture");
}

TEST(GgufWriter, OneFileIsReadBack) {
  const TestFolder folder;
  EXPECT_THAT(write_gguf(folder.path() / "m.gguf", 0), ElementsAre(folder.path() / "m.gguf"));
  const GgufFile file = read_gguf(folder.path() / "m.gguf");
  expect_every_kind(file);
  expect_payload(file.tensors, kGgufTensors);
}

TEST(GgufWriter, PartsAreReadBackAsOne) {
  const TestFolder folder;
  const auto files = write_gguf(folder.path() / "m.gguf", 70);
  EXPECT_THAT(files, ElementsAre(folder.path() / "m-00001-of-00003.gguf", folder.path() / "m-00002-of-00003.gguf",
                                 folder.path() / "m-00003-of-00003.gguf"));
  const GgufFile file = read_gguf(files[1]);
  expect_every_kind(file);
  expect_payload(file.tensors, kGgufTensors);
}

TEST(GgufWriter, AFileOfTheReferenceWriterIsWrittenAgainByteForByte) {
  const TestFolder folder;
  const GgufFile file = read_gguf(golden("every.gguf"));
  GgufMetadata metadata;
  for (const GgufPair& pair : file.pairs) metadata.copy(pair);
  std::vector<TensorSpec> tensors;
  for (const TensorEntry& entry : file.tensors.tensors()) tensors.push_back({entry.name, entry.dtype, entry.shape});
  GgufWriter writer(folder.path() / "m.gguf", false, metadata, tensors, 0);
  for (const TensorEntry& entry : file.tensors.tensors()) writer.write(entry.bytes);
  writer.commit();
  EXPECT_EQ(text_of(folder.path() / "m.gguf"), text_of(golden("every.gguf")));
}

TEST(GgufWriter, NamesThatReadersDoNotTakeAreRefused) {
  const TestFolder folder;
  const std::vector<TensorSpec> longest = {{.name = std::string(63, 'a'), .shape = {1}}};
  const std::vector<TensorSpec> longer = {{.name = std::string(64, 'a'), .shape = {1}}};
  EXPECT_NO_THROW(GgufWriter(folder.path() / "m.gguf", false, {}, longest, 0));
  EXPECT_THAT(refusal([&] { GgufWriter(folder.path() / "m.gguf", false, {}, longer, 0); }), HasSubstr("64 bytes"));
}

}  // namespace
}  // namespace pastkv::formats
