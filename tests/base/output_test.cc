#include "base/output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <iterator>
#include <vector>

#include "base/error.h"
#include "base/interrupt.h"
#include "support.h"

namespace pastkv {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::text_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class OutputTest : public testing::Test {
 protected:
  OutputTest() {
    std::string name = testing::TempDir() + "pastkv_output_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~OutputTest() override { fs::remove_all(folder_); }

  // Names in the folder, sorted.
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_)) found.push_back(entry.path().filename().string());
    std::ranges::sort(found);
    return found;
  }

  fs::path folder_;
};

TEST_F(OutputTest, AFileAppearsWhenItIsCommitted) {
  const fs::path target = folder_ / "a.bin";
  OutputFile file(target, false);
  file.write("abc");
  file.pad_to(8);
  EXPECT_EQ(file.size(), 8U);
  file.write(std::string(3U << 20U, 'x'));
  file.write("end");
  file.write_at(1, std::as_bytes(std::span("BC", 2)));
  EXPECT_FALSE(fs::exists(target));
  file.commit();
  EXPECT_EQ(text_of(target), std::string("aBC\0\0\0\0\0", 8) + std::string(3U << 20U, 'x') + "end");
  EXPECT_THAT(names(), ElementsAre("a.bin"));
}

TEST_F(OutputTest, AFileHasTheRightsThatTheUsersMaskLeaves) {
  OutputFile file(folder_ / "a", false);
  file.commit();
  const mode_t mask = ::umask(0);
  ::umask(mask);
  struct stat status{};
  ASSERT_EQ(::stat((folder_ / "a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0666U & ~mask);
}

TEST_F(OutputTest, WhatIsNotCommittedLeavesNothing) {
  {
    OutputFile file(folder_ / "a", false);
    file.write("abc");
    OutputFolder made(folder_ / "b", false);
    OutputFile inside = made.file("deep/c");
    inside.write("abc");
    inside.commit();
  }
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(OutputTest, WhatStoodThereStaysUntilTheCommit) {
  const fs::path target = folder_ / "a";
  std::ofstream(target) << "old";
  EXPECT_THAT(error_of([&] { OutputFile(target, false); }), HasSubstr("exists"));
  {
    OutputFile(target, true).write("new");
  }
  EXPECT_EQ(text_of(target), "old");
  OutputFile file(target, true);
  file.write("new");
  EXPECT_EQ(text_of(target), "old");
  file.commit();
  EXPECT_EQ(text_of(target), "new");
}

TEST_F(OutputTest, AFileThatAppearedMeanwhileIsNotReplaced) {
  const fs::path target = folder_ / "a";
  OutputFile file(target, false);
  file.write("new");
  std::ofstream(target) << "old";
  EXPECT_THAT(error_of([&] { file.commit(); }), HasSubstr("exists"));
  EXPECT_EQ(text_of(target), "old");
}

TEST_F(OutputTest, AFolderAppearsWhole) {
  const fs::path target = folder_ / "out";
  OutputFolder made(target / "", false);  // a slash at the end changes nothing
  for (const char* name : {"a", "sub/deep/b"}) {
    OutputFile file = made.file(name);
    file.write(name);
    file.commit();
  }
  EXPECT_FALSE(fs::exists(target));
  made.commit();
  EXPECT_EQ(text_of(target / "a"), "a");
  EXPECT_EQ(text_of(target / "sub/deep/b"), "sub/deep/b");
}

TEST_F(OutputTest, AnEmptyFolderIsFilledAndAFullOneIsKept) {
  const fs::path target = folder_ / "out";
  fs::create_directory(target);
  OutputFolder(target, false).commit();
  std::ofstream(target / "old") << "old";
  EXPECT_THAT(error_of([&] { OutputFolder(target, false); }), HasSubstr("exists"));
  EXPECT_EQ(text_of(target / "old"), "old");
}

TEST_F(OutputTest, AReplacedFolderIsKeptUntilTheNewOneIsWhole) {
  const fs::path target = folder_ / "out";
  fs::create_directory(target);
  std::ofstream(target / "old") << "old";
  {
    OutputFolder made(target, true);
    made.file("new").commit();
  }
  EXPECT_EQ(text_of(target / "old"), "old");
  {
    OutputFolder made(target, true);
    made.file("new").commit();
    made.commit();
  }
  EXPECT_TRUE(fs::exists(target / "new"));
  EXPECT_FALSE(fs::exists(target / "old"));
  EXPECT_THAT(names(), ElementsAre("out"));
}

TEST_F(OutputTest, TheFolderOneStandsInIsNotReplaced) {
  const fs::path before = fs::current_path();
  fs::create_directories(folder_ / "out/deep");
  fs::current_path(folder_ / "out/deep");
  EXPECT_THAT(error_of([&] { OutputFolder(folder_ / "out", true); }), HasSubstr("current directory"));
  fs::current_path(before);
}

TEST_F(OutputTest, PlacesThatCannotBeWrittenAreNamed) {
  EXPECT_THAT(error_of([&] { OutputFile(folder_ / "absent" / "a", false); }), HasSubstr("absent/a"));
  EXPECT_THAT(error_of([&] { OutputFile(folder_, true); }), HasSubstr("is a folder"));
  EXPECT_THAT(error_of([&] { OutputFolder(folder_ / "absent" / "a", false); }), HasSubstr("absent/a"));
}

// In a process of its own: a limit on the size of files plays the full disk.
TEST_F(OutputTest, AFileThatGrowsNoFurtherIsAnErrorAtItsPlace) {
  const fs::path target = folder_ / "out";
  const auto written = [&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 1U << 20U, .rlim_max = 1U << 20U};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return std::string("no limit");
    return error_of([&] {
      OutputFolder made(target, false);
      OutputFile file = made.file("big");
      for (int i = 0; i < 64; ++i) file.write(std::string(1U << 16U, 'x'));
    });
  };
  const pid_t child = ::fork();
  if (child == 0) ::_exit(written().find((target / "big").string()) == 0 ? 0 : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(OutputTest, ASignalUnwindsAndLeavesNothing) {
  const pid_t child = ::fork();
  if (child == 0) {
    catch_interrupts();
    int code = 1;
    try {
      OutputFolder made(folder_ / "out", false);
      OutputFile file = made.file("a");
      file.write("abc");
      ::kill(::getpid(), SIGTERM);
      file.write("abc");
    } catch (const Interrupted&) {
      code = 0;
    }
    if (code == 0) ::kill(::getpid(), SIGINT);  // the second one ends the program
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGINT);
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(OutputTest, TheRoomOnTheDiskIsAskedForFirst) {
  EXPECT_EQ(error_of([&] { require_space(folder_ / "absent" / "a", 1); }), "");
  const std::string refused = error_of([&] { require_space(folder_ / "a", std::uint64_t{1} << 62U); });
  EXPECT_THAT(refused, HasSubstr("4611686018427.4 MB"));
  EXPECT_THAT(refused, HasSubstr("free"));
}

}  // namespace
}  // namespace pastkv
