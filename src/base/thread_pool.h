// Parallel loops whose results do not depend on the number of threads: work is cut into numbered
// items, each item writes only its own result, and the caller merges them in number order.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace msprobe::base {

class ThreadPool {
 public:
  // `threads` == 0: one per core this process may use. A pool of one runs everything in the caller.
  explicit ThreadPool(size_t threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  size_t thread_count() const { return workers_.size() + 1; }

  // Calls body(item, worker) for every item in [0, count), items handed out in rising order; worker
  // < thread_count() names the thread, for per-thread scratch. Returns when all are done. Not
  // reentrant: a body must not call it on this pool.
  void ParallelFor(size_t count, const std::function<void(size_t item, size_t worker)>& body);

 private:
  struct Job;
  void WorkerLoop(size_t worker);
  static void RunItems(Job& job, size_t worker);

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable finished_;
  Job* job_ = nullptr;
  uint64_t generation_ = 0;
  size_t active_ = 0;
  bool stopping_ = false;
};

// Cores this process may use (affinity and cgroup quota respected), at least 1.
size_t UsableCores();

}  // namespace msprobe::base
