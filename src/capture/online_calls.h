// Calls that go to a checker on another host instead of to files: memory for their tensors, within
// a bound, and the sender. What finds no room is dropped and counted; the training goes on.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string_view>

#include "msprobe/status.h"

#include "src/capture/settings.h"
#include "src/capture/tensor_writers.h"
#include "src/online/call.h"
#include "src/online/sender.h"

namespace msprobe::capture {

// Thread-safe.
class OnlineCalls {
 public:
  explicit OnlineCalls(const Settings& settings);
  OnlineCalls(const OnlineCalls&) = delete;
  OnlineCalls& operator=(const OnlineCalls&) = delete;
  ~OnlineCalls() = default;

  // Whether a call of this name ("Functional.linear.0.forward") is checked: forward calls of the
  // API; neither modules nor collectives.
  static bool IsSent(std::string_view name);

  // A step begins; with the first one the sender starts.
  Status Begin(int64_t rank);
  void BeginStep() { waited_nanoseconds_.store(0); }
  // Memory for a tensor of a call that holds `held_bytes` already. Waits for the checker where it
  // moves and the step has time for that left. Empty: the call is to be dropped.
  TensorMemory Take(TensorWriters& writers, size_t bytes, size_t held_bytes);
  void Send(online::Call call) noexcept;
  void Drop(uint64_t bytes) noexcept;
  void Close() noexcept;
  // In the child of a fork: the connection is the parent's.
  void AbandonAfterFork();

 private:
  bool MayWait() const;

  const online::Endpoint endpoint_;
  const uint64_t memory_bytes_;
  const std::chrono::nanoseconds most_waiting_;  // of a step
  std::atomic<int64_t> waited_nanoseconds_{0};
  std::mutex start_mutex_;
  std::unique_ptr<online::Sender> started_;       // under start_mutex_
  std::atomic<online::Sender*> sender_{nullptr};  // started_, once it is there
};

}  // namespace msprobe::capture
