// One line on stderr that shows how far a long job is: redrawn in place on a terminal, a plain line
// every few seconds otherwise. Nothing is printed for jobs that end within a second. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace msprobe::base {

class Progress {
 public:
  // `unit` names what is counted ("rows", "tensors"). A quiet progress prints nothing.
  Progress(std::string_view label, uint64_t total, std::string_view unit, bool quiet);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  // clears the line

  void Add(uint64_t count = 1, uint64_t bytes = 0);

 private:
  void Draw(std::chrono::steady_clock::time_point now);

  const std::string label_;
  const uint64_t total_;
  const std::string unit_;
  const bool quiet_;
  const bool terminal_;
  const std::chrono::steady_clock::time_point start_;
  std::atomic<uint64_t> done_{0};
  std::atomic<uint64_t> bytes_{0};
  std::atomic<int64_t> next_draw_us_;
  std::mutex draw_mutex_;
  bool drawn_ = false;
};

}  // namespace msprobe::base
