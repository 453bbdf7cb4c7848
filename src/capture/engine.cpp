#include "src/capture/engine.h"

#include <algorithm>
#include <utility>

#include <unistd.h>

#include "src/base/output_files.h"
#include "src/dump/layout.h"

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

namespace {

constexpr std::chrono::milliseconds kWaitSlice{50};

}  // namespace

OnlineCalls::OnlineCalls(const Settings& settings)
    : endpoint_(*settings.online),
      memory_bytes_(settings.writer_memory_bytes),
      // A program with a budget waits for nothing.
      most_waiting_(settings.has_budget() ? 0 : settings.online_wait_ms * 1'000'000) {}

bool OnlineCalls::IsSent(std::string_view name) {
  return name.ends_with(".forward") && !name.starts_with("Module.") && !name.starts_with("Cell.") &&
         !name.starts_with("Distributed.");
}

Status OnlineCalls::Begin(int64_t rank) {
  const std::lock_guard lock(start_mutex_);
  if (started_ != nullptr) {
    return {};
  }
  online::SenderOptions options;
  options.endpoint = endpoint_;
  options.hello = {rank, "pytorch"};
  options.most_folder_bytes = memory_bytes_;
  MSP_ASSIGN_OR_RETURN(started_, online::Sender::Start(std::move(options)));
  sender_.store(started_.get());
  return {};
}

bool OnlineCalls::MayWait() const {
  const online::Sender* sender = sender_.load();
  return sender != nullptr && waited_nanoseconds_.load() < most_waiting_.count() &&
         sender->is_moving();
}

TensorMemory OnlineCalls::Take(TensorWriters& writers, size_t bytes, size_t held_bytes) {
  if (const online::Sender* sender = sender_.load(); sender == nullptr || sender->is_refused()) {
    return {};  // no reader, no copy
  }
  TensorMemory memory = writers.TryTake(bytes);
  // Memory that a call holds itself must not be waited for.
  const bool can_fit = writers.fits(bytes) && held_bytes <= writers.memory_bytes() - bytes;
  while (!memory && can_fit && MayWait()) {
    const auto begin = std::chrono::steady_clock::now();
    memory = writers.TakeWithin(bytes, kWaitSlice);
    waited_nanoseconds_ += std::chrono::duration_cast<std::chrono::nanoseconds>(
                               std::chrono::steady_clock::now() - begin)
                               .count();
  }
  return memory;
}

void OnlineCalls::Send(online::Call call) noexcept {
  if (online::Sender* sender = sender_.load(); sender != nullptr) {
    sender->Queue(std::move(call));
  }
}

void OnlineCalls::Drop(uint64_t bytes) noexcept {
  if (online::Sender* sender = sender_.load(); sender != nullptr) {
    sender->CountDropped(bytes);
  }
}

void OnlineCalls::Close() noexcept {
  if (online::Sender* sender = sender_.load(); sender != nullptr) {
    sender->Close();
  }
}

void OnlineCalls::AbandonAfterFork() {
  const online::Sender* sender = sender_.load();
  if (sender != nullptr && sender->descriptor_after_fork() >= 0) {
    ::close(sender->descriptor_after_fork());
  }
}

void LayoutFile::Set(std::string text) {
  const std::lock_guard lock(mutex_);
  if (text != text_) {
    text_ = std::move(text);
    ++version_;
    written_.clear();
  }
}

uint64_t LayoutFile::version() const {
  const std::lock_guard lock(mutex_);
  return version_;
}

Status LayoutFile::WriteTo(const base::Path& folder) {
  const std::lock_guard lock(mutex_);
  const base::Path path = folder / dump::kLayoutFileName;
  if (text_.empty()) {
    return {};
  }
  // The step with the file may have been removed, or be on another file system.
  if (!written_.empty() && ::link(written_.c_str(), path.c_str()) == 0) {
    return {};
  }
  MSP_RETURN_IF_ERROR(base::WriteFileAtomically(path, text_, base::Existing::kReplace));
  written_ = path;
  return {};
}

}  // namespace msprobe::capture
