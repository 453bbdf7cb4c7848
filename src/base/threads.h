// Blocks of work that are made side by side and taken one after the other, in their order: texts
// that are formatted by all threads and written into one file.
#pragma once

#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::base {

// Threads of ours inside somebody else's process, and the one signal that writing files can raise.

// While it lives, this thread takes no signals, and threads that it starts never do: those of the
// training process are handled by its own threads.
class NoSignals {
 public:
  NoSignals();
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;
  ~NoSignals();

 private:
  sigset_t previous_;
};

// A thread that takes no signals. std::bad_alloc passes.
Result<std::thread> StartBackgroundThread(std::function<void()> body);

// While it lives, a write beyond the process's file size limit fails with EFBIG in this thread
// instead of ending the process.
class NoFileSizeSignal {
 public:
  NoFileSizeSignal();
  NoFileSizeSignal(const NoFileSizeSignal&) = delete;
  NoFileSizeSignal& operator=(const NoFileSizeSignal&) = delete;
  ~NoFileSizeSignal();

 private:
  sigset_t previous_;
  bool was_pending_ = false;
};

// Parallel loops whose results do not depend on the number of threads: work is cut into numbered
// items, each item writes only its own result, and the caller merges them in number order.

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

// Calls make(number, worker, block) for every number in [0, count) on the threads of `pool`, and
// take(block) for the results in rising order, one at a time, on any of these threads, while others
// are still made. Blocks are used again: `make` finds what an earlier block has left in it. No more
// than two blocks per thread exist, however slow taking is. Both return a Status; the first error
// in the order of the calls stops the work and is returned.
template <typename Block, typename Make, typename Take>
Status MakeInOrder(ThreadPool& pool, size_t count, const Make& make, const Take& take) {
  struct Slot {
    Block block;
    Status status;
    bool is_ready = false;
  };
  std::vector<Slot> slots(pool.thread_count() * 2);
  std::mutex mutex;
  std::condition_variable moved_on;
  size_t next = 0;  // the block to be taken
  bool is_taking = false;
  Status error;
  bool stopped = false;
  const auto work = [&](size_t number, size_t worker) {
    Slot& slot = slots[number % slots.size()];
    {
      std::unique_lock lock(mutex);
      // Numbers are handed out in rising order, so that who makes the next one never waits.
      moved_on.wait(lock, [&] { return stopped || number < next + slots.size(); });
      if (stopped) {
        return;
      }
    }
    Status made = make(number, worker, slot.block);
    std::unique_lock lock(mutex);
    slot.status = std::move(made);
    slot.is_ready = true;
    if (is_taking) {
      return;
    }
    is_taking = true;
    while (!stopped && next < count && slots[next % slots.size()].is_ready) {
      Slot& first = slots[next % slots.size()];
      Status status = std::move(first.status);
      if (status.ok()) {
        lock.unlock();
        status = take(first.block);
        lock.lock();
      }
      first.is_ready = false;
      ++next;
      if (!status.ok()) {
        error = std::move(status);
        stopped = true;
      }
      // Who waits for a free slot is woken for several of them.
      if (stopped || next % pool.thread_count() == 0) {
        moved_on.notify_all();
      }
    }
    is_taking = false;
    moved_on.notify_all();
  };
  pool.ParallelFor(count, [&](size_t number, size_t worker) {
    try {
      work(number, worker);
    } catch (...) {
      // Memory ran out: nobody may wait for this block.
      const std::lock_guard lock(mutex);
      stopped = true;
      moved_on.notify_all();
      throw;
    }
  });
  return error;
}

}  // namespace msprobe::base
