// The state that all steps of a capture share. Entries and steps keep it alive, whichever is closed
// first.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/capture/device_copies.h"
#include "src/capture/entry.h"
#include "src/capture/filters.h"
#include "src/capture/settings.h"
#include "src/capture/tensor_files.h"
#include "src/device/device.h"
#include "src/online/frame.h"
#include "src/online/sender.h"

namespace msprobe::capture {

// The limits of a capture in a program that must not wait: a service. Data beyond them is dropped
// and counted.

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

// Calls that go to a checker on another host instead of to files: memory for their tensors, within
// a bound, and the sender. What finds no room is dropped and counted; the training goes on.

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

// Copies from devices; the memory for them is had when the first tensor comes.
class LazyDeviceCopies {
 public:
  DeviceCopies& Get() {
    const std::lock_guard lock(mutex_);
    if (copies_ == nullptr) {
      copies_ = std::make_unique<DeviceCopies>(device::Registry::OfThisProcess(), kMemoryBytes);
    }
    return *copies_;
  }
  // Returns when everything queued before has arrived.
  void Wait() {
    DeviceCopies* copies = nullptr;
    {
      const std::lock_guard lock(mutex_);
      copies = copies_.get();
    }
    if (copies != nullptr) {
      copies->Wait();
    }
  }

 private:
  static constexpr size_t kMemoryBytes = size_t{256} << 20U;
  std::mutex mutex_;
  std::unique_ptr<DeviceCopies> copies_;
};

// layout.json: which part of the model this rank holds. The text is the same for all steps until
// the training changes it: the first rank folder gets a file, the others a link to it.

// Thread-safe.
class LayoutFile {
 public:
  void Set(std::string text);
  // The number of the text; 0: there is none.
  uint64_t version() const;
  Status WriteTo(const base::Path& folder);

 private:
  mutable std::mutex mutex_;
  std::string text_;
  uint64_t version_ = 0;
  base::Path written_;  // a file with this text; empty: there is none
};

inline std::string AbsolutePath(const std::string& path) {
  std::error_code error;
  const base::Path absolute = std::filesystem::absolute(path, error);
  return error || path.empty() ? path : absolute.string();
}

struct Engine {
  Engine(Settings given_settings, Filters given_filters)
      : settings(std::move(given_settings)),
        budget(settings),
        filters(std::move(given_filters)),
        root(AbsolutePath(settings.dump_path)),
        bench_root(AbsolutePath(settings.bench_path)),
        writers(std::make_shared<TensorWriters>(static_cast<size_t>(settings.writer_threads),
                                                settings.writer_memory_bytes)),
        online(settings.online ? std::make_unique<OnlineCalls>(settings) : nullptr) {}

  const Settings settings;
  Budget budget;

  std::mutex filters_mutex;
  Filters filters;  // under filters_mutex

  // dump_path whatever working directory the training changes to.
  const std::string root;
  const std::string bench_root;  // empty: none

  const std::shared_ptr<TensorWriters> writers;
  const std::unique_ptr<OnlineCalls> online;  // null: calls are written, not sent
  const std::shared_ptr<Totals> totals = std::make_shared<Totals>();
  LazyDeviceCopies device_copies;
  EntryPool entries;
  SeenValues seen_values;
  LayoutFile layout;

  std::atomic<uint64_t> next_ticket{1};
  // Calls that overflow, are not finite or differ, whichever is looked for; recording ends with the
  // last one wanted.
  std::atomic<int64_t> overflow_hits{0};
  std::atomic<bool> finished{false};
  std::atomic<bool> told_replaced{false};
  // Left out because nothing may wait, since the last step that was not.
  std::atomic<uint64_t> dropped_steps{0};
  // Looked for another run's dump, once; then every step of this capture is refused, or none.
  bool looked_for_other_runs = false;  // under the session's life mutex
  Status other_run;
  // The first file that could not be written is reported on stderr.
  const std::shared_ptr<std::atomic<bool>> told_lost_file =
      std::make_shared<std::atomic<bool>>(false);
  // Set in the child of a fork: the parent's pending work must not be touched.
  std::atomic<bool> abandoned{false};
};

}  // namespace msprobe::capture
