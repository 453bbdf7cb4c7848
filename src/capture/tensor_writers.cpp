#include "src/capture/tensor_writers.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <thread>

#include <fmt/format.h>

#include "src/base/threads.h"
#include "src/base/strings.h"

namespace msprobe::capture {
namespace {

// Smaller tensors live on the heap, which keeps its pages; page-aligned buffers would waste memory.
constexpr size_t kLargeFromBytes = size_t{64} << 10U;

TensorView ViewOfJob(TensorJob& job) {
  TensorView view;
  view.dtype = job.dtype;
  view.strides = ContiguousStrides(job.shape);
  view.shape = std::move(job.shape);
  view.data = job.memory.bytes().data();
  view.extent_bytes = job.memory.bytes().size();
  return view;
}

}  // namespace

// Shared with the threads, which may outlive the object when the disk hangs.
struct TensorWriters::State {
  std::mutex mutex;
  std::condition_variable job_waits;
  std::condition_variable moved;  // memory was given back, or a thread ended
  std::deque<TensorJob> queue;
  uint64_t used_bytes = 0;
  uint64_t given_back_count = 0;
  size_t running_threads = 0;
  bool start_failed = false;
  bool stopping = false;
  std::vector<std::thread> threads;

  void Loop() {
    const base::NoFileSizeSignal guard;
    std::unique_lock lock(mutex);
    for (;;) {
      job_waits.wait(lock, [this] { return stopping || !queue.empty(); });
      if (queue.empty()) {
        break;
      }
      {
        TensorJob job = std::move(queue.front());
        queue.pop_front();
        lock.unlock();
        WriteOrLose(job);
      }
      lock.lock();
    }
    --running_threads;
    moved.notify_all();
  }

  static void WriteOrLose(TensorJob& job) noexcept {
    TensorView view;
    try {
      view = ViewOfJob(job);
    } catch (const std::bad_alloc&) {
      job.files->LoseForMemory(job.name, job.memory.bytes().size());
      return;
    }
    job.files->Write(job.name, job.ticket, view, job.data_crc32);
  }
};

TensorMemory& TensorMemory::operator=(TensorMemory&& other) noexcept {
  if (this != &other) {
    Release();
    owner_ = std::move(other.owner_);
    small_ = std::move(other.small_);
    large_ = std::move(other.large_);
    data_ = std::exchange(other.data_, nullptr);
    size_bytes_ = std::exchange(other.size_bytes_, 0);
    counted_bytes_ = std::exchange(other.counted_bytes_, 0);
  }
  return *this;
}

void TensorMemory::Release() {
  if (owner_ != nullptr) {
    small_.reset();
    large_ = {};
    owner_->GiveBack(counted_bytes_);
    owner_.reset();
  }
  data_ = nullptr;
}

void TensorJob::Submit(TensorWriters& writers) noexcept {
  try {
    ticket = files->Announce(name, memory.bytes().size());
  } catch (const std::bad_alloc&) {
    files->LoseUnannounced();
    return;
  }
  writers.Submit(std::move(*this));
}

void WriteWithoutCopy(const TensorJob& job, const TensorView& view, bool may_write,
                      const TensorWriters& writers) {
  const size_t size_bytes = view.size_bytes();
  const Status why =
      may_write ? Status()
                : IoError(fmt::format("no room for a copy of {} (writer_memory_bytes is {})",
                                      base::FormatBytes(size_bytes), writers.memory_bytes()));
  const uint64_t ticket = job.files->Announce(job.name, size_bytes);  // from here on: no exception
  if (may_write) {
    job.files->Write(job.name, ticket, view, std::nullopt);
    return;
  }
  job.files->Lose(job.name, size_bytes, why);
}

TensorWriters::TensorWriters(size_t threads, uint64_t memory_bytes)
    : thread_limit_(threads),
      memory_bytes_(memory_bytes),
      pool_(std::make_unique<base::BufferPool>(static_cast<size_t>(memory_bytes / 2))),
      state_(std::make_shared<State>()) {}

TensorWriters::~TensorWriters() {
  // The last owner may be a job in one of the threads, after a shutdown that did not wait for it.
  if (!state_->stopping) {
    Shutdown(kPatience);
  }
}

TensorMemory TensorWriters::MakeMemory(size_t size_bytes) {
  TensorMemory memory;
  memory.size_bytes_ = size_bytes;
  memory.counted_bytes_ = size_bytes;
  if (size_bytes < kLargeFromBytes) {
    memory.small_.reset(new (std::nothrow) std::byte[std::max<size_t>(size_bytes, 1)]);
    memory.data_ = memory.small_.get();
  } else {
    memory.large_ = pool_->Take(size_bytes);
    memory.data_ = memory.large_.data();
  }
  if (memory.data_ == nullptr) {
    GiveBack(size_bytes);
    return {};
  }
  memory.owner_ = shared_from_this();
  return memory;
}

TensorMemory TensorWriters::TryTake(size_t size_bytes) {
  {
    const std::lock_guard lock(state_->mutex);
    if (size_bytes > memory_bytes_ || state_->used_bytes > memory_bytes_ - size_bytes) {
      return {};
    }
    state_->used_bytes += size_bytes;
  }
  return MakeMemory(size_bytes);
}

TensorMemory TensorWriters::Take(size_t size_bytes, std::chrono::seconds patience) {
  if (size_bytes > memory_bytes_) {
    return {};
  }
  {
    std::unique_lock lock(state_->mutex);
    while (state_->used_bytes > memory_bytes_ - size_bytes) {
      const uint64_t before = state_->given_back_count;
      if (!state_->moved.wait_for(lock, patience + SlowestWrite(state_->used_bytes),
                                  [&] { return state_->given_back_count != before; })) {
        return {};
      }
    }
    state_->used_bytes += size_bytes;
  }
  return MakeMemory(size_bytes);
}

TensorMemory TensorWriters::TakeWithin(size_t size_bytes, std::chrono::milliseconds patience) {
  if (size_bytes > memory_bytes_) {
    return {};
  }
  {
    std::unique_lock lock(state_->mutex);
    if (!state_->moved.wait_for(lock, patience,
                                [&] { return state_->used_bytes <= memory_bytes_ - size_bytes; })) {
      return {};
    }
    state_->used_bytes += size_bytes;
  }
  return MakeMemory(size_bytes);
}

void TensorWriters::GiveBack(size_t counted_bytes) {
  const std::lock_guard lock(state_->mutex);
  state_->used_bytes -= counted_bytes;
  ++state_->given_back_count;
  state_->moved.notify_all();
}

void TensorWriters::EnsureThreads() noexcept try {
  State& state = *state_;
  state.threads.reserve(thread_limit_);  // a thread that has begun must find its place
  while (state.threads.size() < thread_limit_ && !state.start_failed &&
         state.threads.size() < state.queue.size()) {
    Result<std::thread> thread = base::StartBackgroundThread([shared = state_] { shared->Loop(); });
    if (!thread.ok()) {
      state.start_failed = true;
      return;
    }
    ++state.running_threads;
    state.threads.push_back(*std::move(thread));
  }
} catch (const std::bad_alloc&) {  // those that there are do the work, or the caller does
}

bool TensorWriters::Enqueue(TensorJob& job) noexcept {
  try {
    state_->queue.push_back(std::move(job));
    return true;
  } catch (const std::bad_alloc&) {  // the job is where it was
    return false;
  }
}

void TensorWriters::Submit(TensorJob job) noexcept {
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->stopping && Enqueue(job)) {
      EnsureThreads();
      if (!state_->threads.empty()) {
        state_->job_waits.notify_one();
        return;
      }
      job = std::move(state_->queue.back());
      state_->queue.pop_back();
    }
  }
  const base::NoFileSizeSignal guard;
  State::WriteOrLose(job);
}

void TensorWriters::Shutdown(std::chrono::seconds patience) {
  std::vector<std::thread> threads;
  bool ended = false;
  {
    std::unique_lock lock(state_->mutex);
    state_->stopping = true;
    state_->job_waits.notify_all();
    for (;;) {
      const uint64_t before = state_->given_back_count;
      ended = state_->running_threads == 0;
      if (ended || !state_->moved.wait_for(lock, patience + SlowestWrite(state_->used_bytes), [&] {
            return state_->running_threads == 0 || state_->given_back_count != before;
          })) {
        break;
      }
    }
    threads.swap(state_->threads);
  }
  for (std::thread& thread : threads) {
    if (ended) {
      thread.join();
    } else {
      thread.detach();
    }
  }
}

}  // namespace msprobe::capture
