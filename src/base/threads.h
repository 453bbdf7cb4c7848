// Threads: background threads inside another program, a queue of work with its threads, a budget
// that threads share, parallel loops whose results do not depend on the number of threads, and
// blocks that are made in parallel and taken in order.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
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

// How long to wait while nothing moves, given the units (bytes, items) that are in use; empty: for
// ever. A wait goes on as long as something moves.
using Patience = std::function<std::chrono::milliseconds(uint64_t in_use)>;

// Units of which no more than `limit` are in use at a time. Thread-safe.
class Budget {
 public:
  explicit Budget(uint64_t limit) : limit_(limit) {}

  uint64_t limit() const { return limit_; }
  // All false: there is no room, or never will be.
  bool TryTake(uint64_t units) { return TakeUntil(units, {}); }
  bool TakeUntil(uint64_t units, std::chrono::steady_clock::time_point deadline);
  bool Take(uint64_t units, const Patience& patience);
  void GiveBack(uint64_t units);
  // Until nothing is in use. False: nothing moved for longer than `patience`.
  bool WaitUntilUnused(const Patience& patience);

 private:
  const uint64_t limit_;
  std::mutex mutex_;
  std::condition_variable moved_;
  uint64_t used_ = 0;
  uint64_t moves_ = 0;
};

// The first error of several threads. Thread-safe.
class FirstError {
 public:
  void Note(Status status);
  Status Take();  // and forgets it

 private:
  std::mutex mutex_;
  Status error_;
};

// Work for background threads, taken in the order in which it was added: callers of a program that
// must not wait for a disk, a device or a connection add items and go on.
//
// Memory is bounded by `most`: the weights of what waits and of what is worked on, together; an
// item that is heavier passes alone. Threads start with the first items, no more than there is work
// for. Whoever adds gets an item back that the queue cannot take (no thread or memory can be had,
// or the queue was stopped), and does the work itself or drops it.
//
// After fork, threads and locks of the parent do not exist in the child: its owner must leak the
// queue (release the pointer to it) there. Threads that hang in the system when StopWithin gives
// up keep the state of the queue, not the queue itself.
template <typename Item>
class WorkQueue {
 public:
  struct Rules {
    size_t threads = 1;
    uint64_t most = UINT64_MAX;
    // Called by the thread whenever there was nothing to do for `idle_interval`. With one thread.
    std::function<void()> when_idle = nullptr;
    std::chrono::milliseconds idle_interval{0};
  };
  enum class Added : uint8_t { kYes, kNoRoom, kRefused };

  // `work` must not throw. The item is destroyed before it counts as finished.
  WorkQueue(Rules rules, std::function<void(Item&)> work)
      : state_(std::make_shared<State>(std::move(rules), std::move(work))) {}
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;
  ~WorkQueue() { StopWithin({}); }

  // Starts the first thread, for callers that need to know that there is one.
  Status Start() {
    const std::lock_guard lock(state_->mutex);
    return state_->threads.empty() ? StartThread() : Status();
  }

  // The item is moved from only where the result is kYes.
  Added TryAdd(Item& item, uint64_t weight = 1) {
    const std::lock_guard lock(state_->mutex);
    return state_->HasRoom(weight) ? Push(item, weight) : Added::kNoRoom;
  }
  // Waits for room.
  Added Add(Item& item, uint64_t weight, const Patience& patience) {
    std::unique_lock lock(state_->mutex);
    const bool has_room = state_->WaitFor(lock, patience, [&] { return state_->HasRoom(weight); });
    return has_room ? Push(item, weight) : Added::kNoRoom;
  }
  bool has_room(uint64_t weight = 1) const {
    const std::lock_guard lock(state_->mutex);
    return state_->HasRoom(weight);
  }

  // False: nothing was finished for longer than `patience`.
  bool WaitUntilIdle(const Patience& patience = {}) {
    std::unique_lock lock(state_->mutex);
    return state_->WaitFor(lock, patience, [this] { return state_->unfinished == 0; });
  }
  // Items finished so far, and a wait until there are more, or nothing is left.
  uint64_t finished_count() const {
    const std::lock_guard lock(state_->mutex);
    return state_->finished;
  }
  void WaitForMoreThan(uint64_t finished) {
    std::unique_lock lock(state_->mutex);
    state_->WaitFor(lock, {},
                    [&] { return state_->finished != finished || state_->unfinished == 0; });
  }

  // Ends the threads once everything is done; those that finish nothing for longer than `patience`
  // are left to themselves. Afterwards nothing is taken any more.
  void StopWithin(const Patience& patience) {
    std::vector<std::thread> threads;
    bool ended = false;
    {
      std::unique_lock lock(state_->mutex);
      if (state_->stopping) {
        return;  // perhaps by a thread of the queue, whose item was the last owner
      }
      state_->stopping = true;
      state_->wake.notify_all();
      ended = state_->WaitFor(lock, patience, [this] { return state_->running_threads == 0; });
      threads.swap(state_->threads);
    }
    for (std::thread& thread : threads) {
      ended ? thread.join() : thread.detach();
    }
  }

 private:
  struct Entry {
    Item item;
    uint64_t weight = 0;
  };

  struct State {
    State(Rules given_rules, std::function<void(Item&)> given_work)
        : rules(std::move(given_rules)), work(std::move(given_work)) {}

    const Rules rules;
    const std::function<void(Item&)> work;
    mutable std::mutex mutex;
    std::condition_variable wake;   // of the threads: there is work, or an end
    std::condition_variable moved;  // an item is finished, or a thread ended
    std::deque<Entry> waiting;
    size_t unfinished = 0;  // items that wait or are worked on, and their weight
    uint64_t weight = 0;
    uint64_t finished = 0;
    size_t running_threads = 0;
    bool stopping = false;
    std::vector<std::thread> threads;

    bool HasRoom(uint64_t more) const {
      return unfinished == 0 || (weight <= rules.most && more <= rules.most - weight);
    }

    template <typename Predicate>
    bool WaitFor(std::unique_lock<std::mutex>& lock, const Patience& patience,
                 const Predicate& predicate) {
      while (!predicate()) {
        const uint64_t before = finished;
        const size_t threads_before = running_threads;
        const auto has_moved = [&] {
          return finished != before || running_threads != threads_before;
        };
        if (!patience) {
          moved.wait(lock, has_moved);
        } else if (!moved.wait_for(lock, patience(weight), has_moved)) {
          return false;
        }
      }
      return true;
    }

    void Loop() {
      std::unique_lock lock(mutex);
      while (true) {
        const auto is_needed = [this] { return stopping || !waiting.empty(); };
        if (!rules.when_idle) {
          wake.wait(lock, is_needed);
        } else if (!wake.wait_for(lock, rules.idle_interval, is_needed)) {
          lock.unlock();
          rules.when_idle();
          lock.lock();
          continue;
        }
        if (waiting.empty()) {
          break;
        }
        uint64_t done = 0;
        {
          Entry entry = std::move(waiting.front());
          waiting.pop_front();
          done = entry.weight;
          lock.unlock();
          work(entry.item);
        }
        lock.lock();
        weight -= done;
        --unfinished;
        ++finished;
        moved.notify_all();
      }
      --running_threads;
      moved.notify_all();
    }
  };

  // Both: mutex held.
  Status StartThread() {
    State& state = *state_;
    if (state.stopping) {
      return InternalError("the queue is closed");
    }
    try {
      state.threads.reserve(state.rules.threads);  // a thread that runs must find its place
      Result<std::thread> thread = StartBackgroundThread([shared = state_] { shared->Loop(); });
      MSP_RETURN_IF_ERROR(thread.status());
      state.threads.push_back(*std::move(thread));
      ++state.running_threads;
      return {};
    } catch (const std::bad_alloc&) {
      return InternalError("no memory for a thread");
    }
  }

  Added Push(Item& item, uint64_t weight) {
    State& state = *state_;
    try {
      const size_t wanted = std::min(state.rules.threads, state.unfinished + 1);
      if (state.stopping ||
          (state.threads.size() < wanted && !StartThread().ok() && state.threads.empty())) {
        return Added::kRefused;
      }
      state.waiting.emplace_back();
    } catch (const std::bad_alloc&) {  // also where the text of an error has no room
      return Added::kRefused;
    }
    state.waiting.back() = {std::move(item), weight};
    ++state.unfinished;
    state.weight += weight;
    state.wake.notify_one();
    return Added::kYes;
  }

  const std::shared_ptr<State> state_;
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
      // Threads that wait for a free slot are woken for several of them at once.
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
      // Memory ran out: no thread may wait for this block.
      const std::lock_guard lock(mutex);
      stopped = true;
      moved_on.notify_all();
      throw;
    }
  });
  return error;
}

}  // namespace msprobe::base
