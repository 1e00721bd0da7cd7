#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace pastkv {
namespace {

// About 50 to 100 microseconds: longer than the serial work between two regions of a generation step, short enough to
// leave the processor to others when the engine is idle.
constexpr int kSpins = 4000;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

std::vector<int> allowed_list() {
  // A mask larger than the default set: machines with more than 1024 processors exist.
  for (int capacity = 1024; capacity <= (1 << 18); capacity *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<std::size_t>(capacity));
    if (set == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(capacity));
    CPU_ZERO_S(bytes, set);
    const bool read = sched_getaffinity(0, bytes, set) == 0;
    std::vector<int> processors;
    for (int cpu = 0; read && cpu < capacity; ++cpu) {
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, set)) processors.push_back(cpu);
    }
    CPU_FREE(set);
    if (read) return processors;
  }
  return {0};
}

// Processors that the cgroup quota amounts to, or a very large number when there is none.
double cgroup_quota() {
  double quota = 1e9;
  std::string own;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.rfind("0::", 0) == 0) own = line.substr(3);
  }
  // A limit of any group above holds too.
  for (;; own.erase(own.rfind('/'))) {
    std::ifstream file("/sys/fs/cgroup" + own + "/cpu.max");
    std::string limit;
    double period = 0;
    if (file >> limit >> period && limit != "max" && period > 0) {
      quota = std::min(quota, std::strtod(limit.c_str(), nullptr) / period);
    }
    if (own.empty() || own == "/" || own.rfind('/') == std::string::npos) break;
  }
  std::ifstream quota_v1("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  std::ifstream period_v1("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  double allowed = 0;
  double period = 0;
  if (quota_v1 >> allowed && period_v1 >> period && allowed > 0 && period > 0)
    quota = std::min(quota, allowed / period);
  return quota;
}

int within_quota(std::size_t count) {
  const double quota = std::max(1.0, std::floor(cgroup_quota()));
  return static_cast<int>(std::clamp(static_cast<double>(count), 1.0, quota));
}

}  // namespace

int allowed_processors() {
  return within_quota(allowed_list().size());
}

int allowed_cores() {
  std::set<std::string> cores;
  for (const int cpu : allowed_list()) {
    std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
    std::string siblings;
    if (!(file >> siblings)) siblings = "cpu" + std::to_string(cpu);
    cores.insert(siblings);
  }
  return within_quota(cores.size());
}

// A region is closed as soon as its chunks are taken, and only who is inside by then is waited for: on a busy machine
// the processor may be with others for milliseconds, and a worker that did not wake in time would hold up everybody.
struct ThreadPool::Team {
  // Number of the region (high half), whether it is open, and how many workers are inside.
  static constexpr std::uint64_t kRegion = std::uint64_t{1} << 32;
  static constexpr std::uint64_t kOpen = std::uint64_t{1} << 31;
  static constexpr std::uint64_t kInside = kOpen - 1;

  std::vector<std::thread> workers;
  alignas(64) std::atomic<std::uint64_t> gate{0};
  alignas(64) std::atomic<std::uint32_t> region{0};  // the gate's high half, to wait on
  std::atomic<int> parked{0};
  std::atomic<bool> stop{false};
  alignas(64) std::atomic<std::int64_t> next{0};  // first chunk nobody took
  std::int64_t chunks = 0;
  const std::function<void(std::int64_t, int)>* body = nullptr;
  std::mutex error_mutex;
  std::exception_ptr error;

  void take_chunks(int thread) {
    try {
      for (;;) {
        const std::int64_t chunk = next.fetch_add(1, std::memory_order_relaxed);
        if (chunk >= chunks) return;
        (*body)(chunk, thread);
      }
    } catch (...) {
      const std::lock_guard lock(error_mutex);
      if (!error) error = std::current_exception();
      next.store(chunks, std::memory_order_relaxed);
    }
  }

  // True when the caller is inside an open region and must leave it.
  bool enter() {
    std::uint64_t seen = gate.load(std::memory_order_acquire);
    while ((seen & kOpen) != 0) {
      if (gate.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire)) return true;
    }
    return false;
  }

  void work(int thread) {
    std::uint32_t seen = 0;
    for (;;) {
      for (int spin = 0; spin < kSpins && region.load(std::memory_order_acquire) == seen; ++spin) relax();
      if (region.load(std::memory_order_acquire) == seen) {
        parked.fetch_add(1);
        region.wait(seen);
        parked.fetch_sub(1);
      }
      seen = region.load(std::memory_order_acquire);
      if (stop.load()) return;
      if (!enter()) continue;
      take_chunks(thread);
      gate.fetch_sub(1, std::memory_order_release);
    }
  }

  void open_region() {
    const auto number = static_cast<std::uint32_t>(region.load(std::memory_order_relaxed) + 1);
    gate.store(number * kRegion | kOpen, std::memory_order_release);
    region.store(number, std::memory_order_seq_cst);
    if (parked.load(std::memory_order_seq_cst) > 0) region.notify_all();
  }

  void close_region() {
    gate.fetch_and(~kOpen, std::memory_order_acq_rel);
    for (int spin = 0; (gate.load(std::memory_order_acquire) & kInside) != 0;) {
      // On an oversubscribed machine the last worker may need this very processor.
      if (++spin > kSpins)
        std::this_thread::yield();
      else
        relax();
    }
  }
};

ThreadPool::ThreadPool(int threads) : team_(std::make_unique<Team>()) {
  for (int thread = 1; thread < threads; ++thread) {
    team_->workers.emplace_back([team = team_.get(), thread] { team->work(thread); });
  }
}

ThreadPool::~ThreadPool() {
  team_->stop.store(true);
  team_->region.fetch_add(1);
  team_->region.notify_all();
  for (std::thread& worker : team_->workers) worker.join();
}

int ThreadPool::threads() const {
  return static_cast<int>(team_->workers.size()) + 1;
}

void ThreadPool::run(std::int64_t chunks, const std::function<void(std::int64_t, int)>& body) {
  if (chunks <= 0) return;
  if (team_->workers.empty() || chunks == 1) {
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) body(chunk, 0);
    return;
  }
  team_->next.store(0, std::memory_order_relaxed);
  team_->chunks = chunks;
  team_->body = &body;
  team_->open_region();
  team_->take_chunks(0);
  team_->close_region();
  if (team_->error) std::rethrow_exception(std::exchange(team_->error, nullptr));
}

}  // namespace pastkv
