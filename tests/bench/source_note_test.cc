#include "bench/source_note.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"

namespace pastkv::bench {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class SourceNoteTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / "source_note_test";
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    put("source/config.json");
  }
  void put(const fs::path& file, const std::string& text = "x") {
    fs::create_directories((folder_ / file).parent_path());
    std::ofstream(folder_ / file) << text;
  }
  SourceNote note() { return {.source = folder_ / "source", .hash = "h", .target = "t"}; }

  fs::path folder_;
};

TEST_F(SourceNoteTest, LiesInAFolderAndBesideAFileOrPackage) {
  put("made/onnx/model.onnx");
  put("model.gguf");
  put("made.mlpackage/Manifest.json");
  EXPECT_EQ(note_path(folder_ / "made/"), folder_ / "made/pastkv.json");
  EXPECT_EQ(note_path(folder_ / "model.gguf"), folder_ / "model.gguf.pastkv.json");
  EXPECT_EQ(note_path(folder_ / "made.mlpackage"), folder_ / "made.mlpackage.pastkv.json");
}

TEST_F(SourceNoteTest, IsFoundFromEveryPathThatOpensTheArtifact) {
  put("made/onnx/model.onnx");
  put("made/made.mlpackage/Manifest.json");
  write_source_note(folder_ / "made", note());
  put("model-00002-of-00003.gguf");
  write_source_note(folder_ / "model.gguf", note());
  for (const char* artifact :
       {"made", "made/", "made/onnx/model.onnx", "made/onnx", "made/made.mlpackage", "model-00002-of-00003.gguf"}) {
    const auto found = find_source_note(folder_ / artifact);
    ASSERT_TRUE(found) << artifact;
    EXPECT_TRUE(fs::equivalent(found->source, folder_ / "source")) << artifact;
    EXPECT_EQ(found->hash, "h");
    EXPECT_EQ(found->target, "t");
  }
  EXPECT_FALSE(find_source_note(folder_ / "source"));
}

TEST_F(SourceNoteTest, HoldsWhenBothAreMovedTogether) {
  put("a/model.gguf");
  fs::rename(folder_ / "source", folder_ / "a/source");
  write_source_note(folder_ / "a/model.gguf", {.source = folder_ / "a/source/", .hash = "h", .target = "gguf"});
  fs::rename(folder_ / "a", folder_ / "b");
  EXPECT_TRUE(fs::equivalent(find_source_note(folder_ / "b/model.gguf")->source, folder_ / "b/source"));
}

TEST_F(SourceNoteTest, ADamagedOneIsNamed) {
  put("made/x");
  put("made/pastkv.json", R"({"source": 3})");
  try {
    find_source_note(folder_ / "made");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("key source: is no text"));
  }
}

}  // namespace
}  // namespace pastkv::bench
