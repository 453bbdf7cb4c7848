#include "src/capture/task_thread.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "msprobe/status.h"

#include "src/base/threads.h"

namespace msprobe::capture {

struct TaskThread::State {
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::function<void()>> tasks;
  bool busy = false;
  bool stopping = false;
  std::thread thread;

  void Loop() {
    std::unique_lock lock(mutex);
    for (;;) {
      wake.wait(lock, [this] { return stopping || !tasks.empty(); });
      if (tasks.empty()) {
        return;
      }
      std::function<void()> task = std::move(tasks.front());
      tasks.pop_front();
      busy = true;
      lock.unlock();
      task();
      task = nullptr;  // what it holds is let go outside of the lock
      lock.lock();
      busy = false;
    }
  }
};

TaskThread::TaskThread(size_t most_waiting)
    : most_waiting_(most_waiting), state_(std::make_unique<State>()) {}

TaskThread::~TaskThread() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->wake.notify_one();
  if (state_->thread.joinable()) {
    state_->thread.join();
  }
}

bool TaskThread::has_room() const {
  const std::lock_guard lock(state_->mutex);
  return state_->tasks.size() + (state_->busy ? 1 : 0) <= most_waiting_;
}

bool TaskThread::Post(std::function<void()> task) {
  const std::lock_guard lock(state_->mutex);
  if (state_->tasks.size() + (state_->busy ? 1 : 0) > most_waiting_) {
    return false;
  }
  if (!state_->thread.joinable()) {
    Result<std::thread> thread =
        base::StartBackgroundThread([state = state_.get()] { state->Loop(); });
    if (!thread.ok()) {
      return false;
    }
    state_->thread = *std::move(thread);
  }
  state_->tasks.push_back(std::move(task));
  state_->wake.notify_one();
  return true;
}

}  // namespace msprobe::capture
