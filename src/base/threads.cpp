#include "src/base/threads.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <ctime>
#include <exception>
#include <fstream>
#include <new>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

namespace msprobe::base {
namespace {

sigset_t FileSizeSignal() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGXFSZ);
  return set;
}

bool IsPending() {
  sigset_t pending;
  ::sigemptyset(&pending);
  ::sigpending(&pending);
  return ::sigismember(&pending, SIGXFSZ) == 1;
}

}  // namespace

NoSignals::NoSignals() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &previous_);
}

NoSignals::~NoSignals() { ::pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }

Result<std::thread> StartBackgroundThread(std::function<void()> body) {
  const NoSignals no_signals;  // a new thread begins with the mask of its maker
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    return IoError(fmt::format("cannot start a thread: {}", error.what()));
  }
}

NoFileSizeSignal::NoFileSizeSignal() : was_pending_(IsPending()) {
  const sigset_t signal = FileSizeSignal();
  ::pthread_sigmask(SIG_BLOCK, &signal, &previous_);
}

NoFileSizeSignal::~NoFileSizeSignal() {
  // A signal that our writes raised must not be delivered when the mask is restored.
  if (!was_pending_ && IsPending()) {
    const sigset_t signal = FileSizeSignal();
    const timespec at_once = {0, 0};
    ::sigtimedwait(&signal, nullptr, &at_once);
  }
  ::pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

bool Budget::TakeUntil(uint64_t units, std::chrono::steady_clock::time_point deadline) {
  if (units > limit_) {
    return false;
  }
  std::unique_lock lock(mutex_);
  if (!moved_.wait_until(lock, deadline, [&] { return used_ <= limit_ - units; })) {
    return false;
  }
  used_ += units;
  return true;
}

bool Budget::Take(uint64_t units, const Patience& patience) {
  if (units > limit_) {
    return false;
  }
  std::unique_lock lock(mutex_);
  while (used_ > limit_ - units) {
    const uint64_t before = moves_;
    if (!moved_.wait_for(lock, patience(used_), [&] { return moves_ != before; })) {
      return false;
    }
  }
  used_ += units;
  return true;
}

void Budget::GiveBack(uint64_t units) {
  const std::lock_guard lock(mutex_);
  used_ -= units;
  ++moves_;
  moved_.notify_all();
}

bool Budget::WaitUntilUnused(const Patience& patience) {
  std::unique_lock lock(mutex_);
  while (used_ > 0) {
    const uint64_t before = moves_;
    if (!moved_.wait_for(lock, patience(used_), [&] { return moves_ != before; })) {
      return false;
    }
  }
  return true;
}

void FirstError::Note(Status status) {
  const std::lock_guard lock(mutex_);
  if (error_.ok() && !status.ok()) {
    error_ = std::move(status);
  }
}

Status FirstError::Take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(error_, Status());
}

struct ThreadPool::Job {
  const std::function<void(size_t, size_t)>* body;
  size_t count;
  std::atomic<size_t> next{0};
  // An exception of a library, mostly out of memory: thrown again where the job was started.
  std::atomic<bool> failed{false};
  std::exception_ptr error;
};

size_t UsableCores() {
  size_t cores = std::max(1U, std::thread::hardware_concurrency());
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0) {
    cores = static_cast<size_t>(CPU_COUNT(&set));
  }
  // A container's CPU quota: "<microseconds> <period>" or "max <period>".
  std::ifstream quota_file("/sys/fs/cgroup/cpu.max");
  double quota = 0;
  double period = 0;
  if (quota_file >> quota >> period && quota > 0 && period > 0) {
    cores = std::min(cores, static_cast<size_t>(std::max(1.0, std::ceil(quota / period))));
  }
  return cores;
}

namespace {

void EndThreads(std::mutex& mutex, std::condition_variable& wake, bool& stopping,
                std::vector<std::thread>& workers) {
  {
    const std::lock_guard lock(mutex);
    stopping = true;
  }
  wake.notify_all();
  for (std::thread& worker : workers) {
    worker.join();
  }
  workers.clear();
}

}  // namespace

ThreadPool::ThreadPool(size_t threads) {
  const size_t wanted = threads == 0 ? UsableCores() : threads;
  for (size_t worker = 1; worker < wanted; ++worker) {
    bool is_made = true;
    try {
      workers_.emplace_back([this, worker] { WorkerLoop(worker); });
    } catch (const std::system_error&) {
      is_made = false;
    } catch (const std::bad_alloc&) {
      is_made = false;
    }
    if (!is_made) {
      // The remaining memory should go to the work and not to stacks: the caller works alone.
      EndThreads(mutex_, wake_, stopping_, workers_);
      break;
    }
  }
}

ThreadPool::~ThreadPool() { EndThreads(mutex_, wake_, stopping_, workers_); }

void ThreadPool::RunItems(Job& job, size_t worker) {
  for (size_t item = job.next.fetch_add(1); item < job.count; item = job.next.fetch_add(1)) {
    try {
      (*job.body)(item, worker);
    } catch (...) {
      if (!job.failed.exchange(true)) {
        job.error = std::current_exception();
      }
      job.next.store(job.count);
    }
  }
}

void ThreadPool::ParallelFor(size_t count, const std::function<void(size_t, size_t)>& body) {
  Job job;
  job.body = &body;
  job.count = count;
  if (workers_.empty() || count <= 1) {
    RunItems(job, 0);
    if (job.error != nullptr) {
      std::rethrow_exception(job.error);
    }
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    job_ = &job;
    ++generation_;
    active_ = workers_.size();
  }
  wake_.notify_all();
  RunItems(job, 0);
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [this] { return active_ == 0; });
  job_ = nullptr;
  lock.unlock();
  if (job.error != nullptr) {
    std::rethrow_exception(job.error);
  }
}

void ThreadPool::WorkerLoop(size_t worker) {
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stopping_ || generation_ != seen; });
    if (stopping_) {
      return;
    }
    seen = generation_;
    Job* job = job_;
    lock.unlock();
    RunItems(*job, worker);
    lock.lock();
    if (--active_ == 0) {
      finished_.notify_one();
    }
  }
}

}  // namespace msprobe::base
