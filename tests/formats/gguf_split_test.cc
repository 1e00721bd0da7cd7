#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/gguf.h"
#include "golden.h"

namespace pastkv::formats {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kParts[] = {"split-00001-of-00003.gguf", "split-00002-of-00003.gguf",
                                  "split-00003-of-00003.gguf"};

class GgufSplit : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* part : kParts) folder_.write(part, golden_bytes(part));
  }
  std::filesystem::path part(int number) const { return folder_.path() / kParts[number - 1]; }
  std::string refused(int number) const {
    return refusal([&] { read_gguf(part(number)); });
  }
  GgufBytes a_part(std::uint16_t number, std::uint16_t count, std::int32_t tensors) const {
    GgufBytes bytes;
    bytes.pair("split.no", 2, raw(number)).pair("split.count", 2, raw(count));
    bytes.pair("split.tensors.count", 5, raw(tensors));
    return bytes;
  }

  TestFolder folder_;
};

TEST_F(GgufSplit, AnyPartOpensTheWhole) {
  for (const int number : {1, 2, 3}) {
    const GgufFile file = read_gguf(part(number));
    EXPECT_EQ(file.path, part(1));
    EXPECT_EQ(file.files.size(), 3U);
    EXPECT_EQ(file.require_int("llama.block_count"), 7);
    ASSERT_EQ(file.tensors.tensors().size(), 5U);
    std::uint64_t bytes = 0;
    for (const char* name : kParts) bytes += std::filesystem::file_size(folder_.path() / name);
    EXPECT_EQ(file.file_bytes, bytes);
    for (int i = 0; i < 5; ++i) {
      const TensorEntry* entry = file.tensors.find("t" + std::to_string(i));
      ASSERT_NE(entry, nullptr);
      float value = -1;
      std::memcpy(&value, entry->bytes.data(), sizeof value);
      EXPECT_EQ(value, static_cast<float>(i));
    }
  }
}

TEST_F(GgufSplit, MissingPartsAreListed) {
  std::filesystem::remove(part(1));
  std::filesystem::remove(part(3));
  EXPECT_THAT(refused(2), AllOf(HasSubstr(kParts[0]), HasSubstr(kParts[2]), HasSubstr("2 are missing")));
}

TEST_F(GgufSplit, ARenamedPartIsToldItsName) {
  std::filesystem::rename(part(2), folder_.path() / "model.gguf");
  EXPECT_THAT(refusal([&] { read_gguf(folder_.path() / "model.gguf"); }),
              AllOf(HasSubstr("part 2"), HasSubstr("-00002-of-00003.gguf")));
}

TEST_F(GgufSplit, PartsOfAnotherModelAreFound) {
  folder_.write(kParts[1], golden_bytes(kParts[2]));
  EXPECT_THAT(refused(1), AllOf(HasSubstr(kParts[1]), HasSubstr("part 3 of 3"), HasSubstr("2 of 3")));
  folder_.write(kParts[1], a_part(1, 2, 5).bytes());
  EXPECT_THAT(refused(1), HasSubstr("part 2 of 2"));
  folder_.write(kParts[1], GgufBytes().bytes());
  EXPECT_THAT(refused(1), AllOf(HasSubstr(kParts[1]), HasSubstr("split.no")));
}

TEST_F(GgufSplit, TheNumberOfTensorsIsChecked) {
  folder_.write(kParts[1], a_part(1, 3, 5).bytes());
  EXPECT_THAT(refused(1), AllOf(HasSubstr("split.tensors.count"), HasSubstr("is 5, the parts hold 3")));
}

TEST_F(GgufSplit, ATensorInTwoPartsNamesBoth) {
  GgufBytes again = a_part(1, 3, 5);
  again.tensor("t0", {2}, 0, raw<float>(1) + raw<float>(2));
  folder_.write(kParts[1], again.bytes());
  EXPECT_THAT(refused(1),
              AllOf(HasSubstr("tensor t0"), HasSubstr("duplicate"), HasSubstr(kParts[0]), HasSubstr(kParts[1])));
}

TEST_F(GgufSplit, ImpossibleNumbersAreRefused) {
  const auto path = folder_.write("odd.gguf", a_part(3, 3, 0).bytes());
  EXPECT_THAT(refusal([&] { read_gguf(path); }), AllOf(HasSubstr("split.no"), HasSubstr("part 3 of 3")));
  GgufBytes many;
  many.pair("split.no", 4, raw<std::uint32_t>(0)).pair("split.count", 4, raw<std::uint32_t>(4000000000));
  folder_.write("odd.gguf", many.bytes());
  EXPECT_THAT(refusal([&] { read_gguf(path); }), HasSubstr("4000000000"));
}

}  // namespace
}  // namespace pastkv::formats
