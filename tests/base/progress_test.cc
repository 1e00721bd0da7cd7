#include "base/progress.h"

#include <gtest/gtest.h>

namespace pastkv {
namespace {

TEST(Progress, SaysRateAndTimeLeft) {
  EXPECT_EQ(progress_line("writing", 0, 100'000'000, 0.0), "writing   0%");
  EXPECT_EQ(progress_line("writing", 25'000'000, 100'000'000, 0.5), "writing  25%  25 of 100 MB  50 MB/s  0:02 left");
  EXPECT_EQ(progress_line("writing", 1'000'000, 100'000'000'000, 1.0),
            "writing   0%  1 of 100000 MB  1 MB/s  27:46:39 left");
  EXPECT_EQ(progress_line("writing", 100'000'000, 100'000'000, 1.0), "writing 100%  100 of 100 MB  100 MB/s");
  EXPECT_EQ(progress_line("writing", 0, 0, 1.0), "writing 100%");
}

}  // namespace
}  // namespace pastkv
