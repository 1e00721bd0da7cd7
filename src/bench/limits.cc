#include "bench/limits.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "engine/kernels/peak.h"

namespace pastkv::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Wide = std::uint64_t __attribute__((vector_size(64)));  // a cache line, in as wide loads as the build has

constexpr std::size_t kSmallestBuffer = std::size_t{256} << 20U;
constexpr std::size_t kLargestBuffer = std::size_t{1} << 30U;
constexpr int kPasses = 12;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Four times the last-level cache, when the system tells its size.
std::size_t buffer_bytes() {
  const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  const auto wanted = static_cast<std::size_t>(std::max(cache, 0L)) * 4;
  return std::clamp(wanted, kSmallestBuffer, kLargestBuffer);
}

std::uint64_t sum_of(const Wide* lines, std::size_t count) {
  Wide sum[4] = {};
  for (std::size_t i = 0; i + 4 <= count; i += 4) {
    for (std::size_t k = 0; k < 4; ++k) sum[k] ^= lines[i + k];
  }
  const Wide all = sum[0] ^ sum[1] ^ sum[2] ^ sum[3];
  return all[0] ^ all[7];
}

double read_bandwidth(ThreadPool& pool) {
  const std::size_t per_thread = buffer_bytes() / sizeof(Wide) / static_cast<std::size_t>(pool.threads()) / 4 * 4;
  std::vector<std::unique_ptr<Wide[]>> slices(static_cast<std::size_t>(pool.threads()));
  // Each thread writes its slice first, so that the pages are its own and really there.
  pool.run(pool.threads(), [&](std::int64_t chunk, int) {
    auto& slice = slices[static_cast<std::size_t>(chunk)];
    slice = std::make_unique_for_overwrite<Wide[]>(per_thread);
    for (std::size_t i = 0; i < per_thread; ++i) slice[i] = Wide{i, i + 1};
  });
  std::atomic<std::uint64_t> sink{0};
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto begin = Clock::now();
    pool.run(pool.threads(), [&](std::int64_t chunk, int) {
      sink += sum_of(slices[static_cast<std::size_t>(chunk)].get(), per_thread);
    });
    const double bytes = static_cast<double>(per_thread * sizeof(Wide)) * pool.threads();
    best = std::max(best, bytes / seconds_since(begin));
  }
  return best;
}

double arithmetic(ThreadPool& pool, double (*loop)(std::int64_t rounds)) {
  constexpr std::int64_t kRounds = 2'000'000;  // some 10 to 20 ms
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    std::vector<double> done(static_cast<std::size_t>(pool.threads()));
    const auto begin = Clock::now();
    pool.run(pool.threads(), [&](std::int64_t chunk, int) { done[static_cast<std::size_t>(chunk)] = loop(kRounds); });
    const double seconds = seconds_since(begin);
    double operations = 0;
    for (const double d : done) operations += d;
    best = std::max(best, operations / seconds);
  }
  return best;
}

}  // namespace

MachineLimits measure_limits(int threads) {
  ThreadPool pool(threads);
  const engine::PeakLoops loops = engine::peak_loops();
  MachineLimits limits;
  limits.read_bytes_per_second = read_bandwidth(pool);
  limits.f32_ops_per_second = arithmetic(pool, loops.f32);
  limits.int8_ops_per_second = arithmetic(pool, loops.int8);
  limits.loops = loops.name;
  return limits;
}

}  // namespace pastkv::bench
