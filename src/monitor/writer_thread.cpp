#include "src/monitor/writer_thread.h"

#include <exception>
#include <utility>

#include <fmt/format.h>

#include "src/base/threads.h"

namespace msprobe::monitor {

WriterThread::WriterThread(std::function<void(const Status&)> on_failure)
    : on_failure_(std::move(on_failure)) {
  if (Result<std::thread> thread = base::StartBackgroundThread([this] { Loop(); }); thread.ok()) {
    thread_ = *std::move(thread);
  }
}

WriterThread::~WriterThread() { Close(); }

std::unique_ptr<StepBuffer> WriterThread::TakeBuffer() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    return std::make_unique<StepBuffer>();
  }
  std::unique_ptr<StepBuffer> buffer = std::move(free_.back());
  free_.pop_back();
  return buffer;
}

void WriterThread::GiveBack(std::unique_ptr<StepBuffer> buffer) {
  constexpr size_t kKept = 2;
  buffer->Clear();
  const std::lock_guard lock(mutex_);
  if (free_.size() < kKept) {
    free_.push_back(std::move(buffer));
  }
}

void WriterThread::Submit(std::unique_ptr<StepBuffer> step, std::shared_ptr<Sink> sink) {
  Job job{std::move(step), std::move(sink)};
  if (!thread_.joinable()) {
    // No thread was to be had.
    Write(job);
    GiveBack(std::move(job.step));
    return;
  }
  std::unique_lock lock(mutex_);
  while (jobs_.size() >= kMostWaitingSteps && !is_stuck_) {
    const uint64_t before = done_;
    is_stuck_ = !moved_.wait_for(lock, kPatience, [&] { return done_ != before; });
  }
  if (jobs_.size() >= kMostWaitingSteps) {
    const int64_t number = job.step->step;
    lock.unlock();
    GiveBack(std::move(job.step));
    Note(IoError(fmt::format("nothing could be written for {} s: the rows of step {} are lost",
                             kPatience.count(), number)));
    return;
  }
  jobs_.push_back(std::move(job));
  lock.unlock();
  wake_.notify_one();
}

void WriterThread::Note(const Status& status) {
  if (status.ok()) {
    return;
  }
  bool tell = false;
  {
    const std::lock_guard lock(mutex_);
    tell = !std::exchange(told_, true);
    if (failure_.ok()) {
      failure_ = status;
    }
  }
  if (tell) {
    on_failure_(status);
  }
}

void WriterThread::Write(Job& job) {
  const base::NoFileSizeSignal guard;
  Status first;
  const auto note = [&first](Status status) {
    if (first.ok() && !status.ok()) {
      first = std::move(status);
    }
  };
  try {
    rows_.Build(*job.step, [&](const Batch& batch) { note(job.sink->Write(batch)); });
    note(job.sink->EndStep(job.step->step));
  } catch (const std::exception& error) {
    note(InternalError(fmt::format("the rows of step {}: {}", job.step->step, error.what())));
  }
  last_ = first.ok() ? nullptr : job.sink;
  last_step_ = job.step->step;
  Note(first);
}

void WriterThread::Loop() {
  std::unique_lock lock(mutex_);
  while (!closed_ || !jobs_.empty()) {
    const bool woken =
        wake_.wait_for(lock, kRetryInterval, [this] { return closed_ || !jobs_.empty(); });
    if (!woken) {
      if (last_ != nullptr) {
        lock.unlock();
        const base::NoFileSizeSignal guard;
        if (last_->EndStep(last_step_).ok()) {
          last_ = nullptr;
        }
        lock.lock();
      }
      continue;
    }
    if (jobs_.empty()) {
      continue;
    }
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    is_busy_ = true;
    lock.unlock();
    Write(job);
    job.sink = nullptr;
    GiveBack(std::move(job.step));
    lock.lock();
    is_busy_ = false;
    is_stuck_ = false;
    ++done_;
    moved_.notify_all();
  }
}

Status WriterThread::Flush() {
  std::unique_lock lock(mutex_);
  while (!jobs_.empty() || is_busy_) {
    const uint64_t before = done_;
    if (!moved_.wait_for(lock, kPatience, [&] { return done_ != before; })) {
      return IoError(fmt::format("nothing could be written for {} s", kPatience.count()));
    }
  }
  return std::exchange(failure_, Status());
}

void WriterThread::Close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) {
    thread_.join();
  }
}

}  // namespace msprobe::monitor
