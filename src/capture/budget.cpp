#include "src/capture/budget.h"

#include <algorithm>

namespace msprobe::capture {
namespace {

constexpr double kNanosecondsPerMillisecond = 1e6;
constexpr double kMostNanoseconds = 9e18;
// Where only bytes are limited.
constexpr std::chrono::milliseconds kUsualPatience{100};

uint64_t NanosecondsOf(const std::optional<double>& milliseconds) {
  return milliseconds ? static_cast<uint64_t>(std::clamp(*milliseconds * kNanosecondsPerMillisecond,
                                                         1.0, kMostNanoseconds))
                      : 0;
}

}  // namespace

Budget::Budget(const Settings& settings)
    : most_nanoseconds_(NanosecondsOf(settings.max_overhead_ms)),
      bytes_per_second_(static_cast<double>(settings.max_bytes_per_s.value_or(0))),
      available_bytes_(bytes_per_second_) {}

void Budget::BeginStep() { spent_nanoseconds_.store(0, std::memory_order_relaxed); }

void Budget::AddNanoseconds(uint64_t nanoseconds) {
  spent_nanoseconds_.fetch_add(nanoseconds, std::memory_order_relaxed);
}

std::chrono::nanoseconds Budget::patience() const {
  return most_nanoseconds_ > 0 ? std::chrono::nanoseconds(most_nanoseconds_)
                               : std::chrono::nanoseconds(kUsualPatience);
}

void Budget::Refill(Clock::time_point now) {
  if (refilled_ && now > *refilled_) {
    const double seconds = std::chrono::duration<double>(now - *refilled_).count();
    available_bytes_ = std::min(available_bytes_ + seconds * bytes_per_second_, bytes_per_second_);
  }
  if (!refilled_ || now > *refilled_) {
    refilled_ = now;
  }
}

bool Budget::TakeFileBytes(uint64_t count, Clock::time_point now) {
  if (bytes_per_second_ <= 0) {
    return true;
  }
  const std::lock_guard lock(mutex_);
  Refill(now);
  if (static_cast<double>(count) > available_bytes_) {
    return false;
  }
  available_bytes_ -= static_cast<double>(count);
  return true;
}

bool Budget::TakeRecordBytes(uint64_t count, Clock::time_point now) {
  if (bytes_per_second_ <= 0) {
    return true;
  }
  const std::lock_guard lock(mutex_);
  Refill(now);
  if (available_bytes_ < 1) {
    return false;
  }
  available_bytes_ -= static_cast<double>(count);
  return true;
}

}  // namespace msprobe::capture
