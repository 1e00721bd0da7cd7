// A fixed team of threads for many short parallel regions: workers spin briefly, then park.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace pastkv {

// Physical cores that this process may use (affinity mask and cgroup quota), at least 1.
int allowed_cores();

// Logical processors that this process may use (affinity mask and cgroup quota), at least 1.
int allowed_processors();

// The calling thread is member 0; `threads - 1` workers are started. One caller at a time.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  // Calls body(chunk, thread) once for each chunk in [0, chunks), handed out dynamically; returns when all are done.
  // `thread` is in [0, threads()). An exception of a body reaches the caller after the region ends.
  void run(std::int64_t chunks, const std::function<void(std::int64_t chunk, int thread)>& body);

 private:
  struct Team;
  std::unique_ptr<Team> team_;
};

}  // namespace pastkv
