// What all steps of a capture share. Entries and steps keep it alive, whoever is closed first.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "src/capture/budget.h"
#include "src/capture/device_copies.h"
#include "src/capture/entry.h"
#include "src/capture/filters.h"
#include "src/capture/online_calls.h"
#include "src/capture/settings.h"
#include "src/capture/tensor_writers.h"
#include "src/capture/totals.h"
#include "src/device/device.h"

namespace msprobe::capture {

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
  // The first file that could not be written is told on stderr.
  const std::shared_ptr<std::atomic<bool>> told_lost_file =
      std::make_shared<std::atomic<bool>>(false);
  // Set in the child of a fork: what the parent had in hand is nobody's business any more.
  std::atomic<bool> abandoned{false};
};

}  // namespace msprobe::capture
