#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace pastkv {
namespace {

TEST(ThreadPool, EveryChunkRunsOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int region = 0; region < 300; ++region) {
      std::vector<std::atomic<int>> seen(37);
      pool.run(37, [&](std::int64_t chunk, int thread) {
        EXPECT_GE(thread, 0);
        EXPECT_LT(thread, threads);
        seen[static_cast<std::size_t>(chunk)]++;
      });
      for (const auto& count : seen) ASSERT_EQ(count.load(), 1);
    }
  }
}

TEST(ThreadPool, WakesParkedWorkers) {
  ThreadPool pool(3);
  for (int region = 0; region < 5; ++region) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::atomic<int> done{0};
    pool.run(8, [&](std::int64_t, int) { done++; });
    EXPECT_EQ(done.load(), 8);
  }
}

TEST(ThreadPool, AnExceptionReachesTheCallerAndThePoolLivesOn) {
  ThreadPool pool(2);
  EXPECT_THROW(pool.run(10,
                        [](std::int64_t chunk, int) {
                          if (chunk == 3) throw std::runtime_error("chunk 3");
                        }),
               std::runtime_error);
  std::atomic<int> done{0};
  pool.run(10, [&](std::int64_t, int) { done++; });
  EXPECT_EQ(done.load(), 10);
}

TEST(AllowedCores, FollowsTheAffinityMask) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(allowed_processors(), 1);
  EXPECT_EQ(allowed_cores(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_GE(allowed_processors(), allowed_cores());
  EXPECT_LE(allowed_processors(), CPU_COUNT(&before));
}

}  // namespace
}  // namespace pastkv
