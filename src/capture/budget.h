// What a capture may take from a program that must not wait: a service. What does not fit is
// dropped, and counted.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>

#include "src/capture/settings.h"

namespace msprobe::capture {

// Thread-safe.
class Budget {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Budget(const Settings& settings);

  // Whether there is a limit at all. Without one, nothing is dropped and every call below passes.
  bool exists() const { return most_nanoseconds_ > 0 || bytes_per_second_ > 0; }

  // The time that the calling threads lost to the capture, from here on in a new step.
  void BeginStep();
  void AddNanoseconds(uint64_t nanoseconds);
  // False from the moment in which the step has had all of its time.
  bool has_time() const {
    return most_nanoseconds_ == 0 ||
           spent_nanoseconds_.load(std::memory_order_relaxed) < most_nanoseconds_;
  }
  // How long the program may wait for one thing, such as the folder of a step.
  std::chrono::nanoseconds patience() const;

  // Bytes that go to the disk: of each second as many as are allowed, saved up for one second at
  // most. False: they do not fit. Of records only the first byte has to fit; what they take beyond
  // is missing in the following seconds.
  bool TakeFileBytes(uint64_t count, Clock::time_point now = Clock::now());
  bool TakeRecordBytes(uint64_t count, Clock::time_point now = Clock::now());

 private:
  void Refill(Clock::time_point now);  // mutex_ held

  const uint64_t most_nanoseconds_;  // of a step; 0: any
  const double bytes_per_second_;    // 0: any
  std::atomic<uint64_t> spent_nanoseconds_{0};

  std::mutex mutex_;  // of the two below
  double available_bytes_;
  std::optional<Clock::time_point> refilled_;
};

}  // namespace msprobe::capture
