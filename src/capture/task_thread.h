// A thread that does one piece of work after the other, for callers that must not wait for it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace msprobe::capture {

class TaskThread {
 public:
  // `most_waiting`: tasks beside the one that runs.
  explicit TaskThread(size_t most_waiting);
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;
  ~TaskThread();  // does all that was posted

  // False when too much waits, or no thread can be had: the task is not done. Tasks do not throw.
  bool Post(std::function<void()> task);
  bool has_room() const;

 private:
  struct State;
  const size_t most_waiting_;
  const std::unique_ptr<State> state_;
};

}  // namespace msprobe::capture
