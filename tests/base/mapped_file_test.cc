#include "base/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace pastkv {
namespace {

class MappedFileTest : public testing::Test {
 protected:
  std::filesystem::path path(const std::string& name) const {
    return std::filesystem::path(testing::TempDir()) / ("mapped_" + name);
  }
};

TEST_F(MappedFileTest, GivesTheBytes) {
  std::ofstream(path("some"), std::ios::binary) << "abc";
  const auto file = MappedFile::open(path("some"));
  ASSERT_EQ(file->bytes().size(), 3U);
  EXPECT_EQ(static_cast<char>(file->bytes()[2]), 'c');
}

TEST_F(MappedFileTest, DroppedPagesComeBack) {
  std::ofstream(path("large"), std::ios::binary) << std::string(100000, 'a') << std::string(100000, 'b');
  const auto file = MappedFile::open(path("large"));
  file->drop(file->bytes());
  file->drop(file->bytes().subspan(99999, 2));
  file->drop({});
  EXPECT_EQ(static_cast<char>(file->bytes()[99999]), 'a');
  EXPECT_EQ(static_cast<char>(file->bytes()[100000]), 'b');
}

TEST_F(MappedFileTest, AnEmptyFileHasNoBytes) {
  std::ofstream(path("empty"), std::ios::binary).flush();
  EXPECT_TRUE(MappedFile::open(path("empty"))->bytes().empty());
}

TEST_F(MappedFileTest, WhatIsNoFileIsRefusedByName) {
  const auto fifo = path("fifo");
  std::filesystem::remove(fifo);
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (const auto& bad : {path("absent"), std::filesystem::path(testing::TempDir()), fifo}) {
    try {
      MappedFile::open(bad);
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.info().file, bad.string());
      EXPECT_FALSE(error.info().reason.empty());
    }
  }
}

}  // namespace
}  // namespace pastkv
