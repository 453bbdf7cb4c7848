#include "src/capture/online_calls.h"

#include <utility>

#include <unistd.h>

namespace msprobe::capture {
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
    return {};  // nothing is copied for nobody
  }
  TensorMemory memory = writers.TryTake(bytes);
  // What a call holds itself must not be waited for.
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

}  // namespace msprobe::capture
