#include "bench/process.h"

#include <gtest/gtest.h>

namespace pastkv::bench {
namespace {

TEST(Process, StatusIsReadInBytes) {
  const ProcessMemory memory = parse_process_status(
      "Name:\tpastkv\nVmPeak:\t  900000 kB\nVmHWM:\t  123456 kB\nVmRSS:\t   99999 kB\nRssAnon:\t   20000 kB\n"
      "RssFile:\t   79999 kB\nRssShmem:\t       0 kB\nThreads:\t2\n");
  EXPECT_EQ(memory.peak_rss_bytes, 123456ULL * 1024);
  EXPECT_EQ(memory.anonymous_bytes, 20000ULL * 1024);
  EXPECT_EQ(memory.file_bytes, 79999ULL * 1024);
}

TEST(Process, AStrangeStatusGivesZeros) {
  const ProcessMemory memory = parse_process_status("VmHWM: many kB\n\nRssAnon:\n");
  EXPECT_EQ(memory.peak_rss_bytes, 0U);
  EXPECT_EQ(memory.anonymous_bytes, 0U);
}

TEST(Process, ThisProcessHasAPeakNoSmallerThanWhatIsResident) {
  const ProcessMemory memory = process_memory();
  EXPECT_GT(memory.peak_rss_bytes, 0U);
  EXPECT_GE(memory.peak_rss_bytes + (1U << 20U), memory.anonymous_bytes + memory.file_bytes);
}

}  // namespace
}  // namespace pastkv::bench
