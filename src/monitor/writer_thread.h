// Inside of the room: the thread that turns steps into files, so that training does not wait for a
// disk.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "msprobe/status.h"

#include "src/monitor/row_builder.h"
#include "src/monitor/step_buffer.h"

namespace msprobe::monitor {

// Where the rows of a step go. Called by one thread at a time.
class Sink {
 public:
  Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  virtual ~Sink() = default;
  virtual Status Write(const Batch& batch) = 0;
  virtual Status EndStep(int64_t step) = 0;
};

class WriterThread {
 public:
  // Steps that wait, at most. A training step waits for room until nothing has moved for so long;
  // its rows are lost then.
  static constexpr size_t kMostWaitingSteps = 64;
  static constexpr std::chrono::seconds kPatience{60};
  // What a full disk refused is tried again so often.
  static constexpr std::chrono::seconds kRetryInterval{1};

  // `on_failure` hears of the first failure and of the first step that is lost.
  explicit WriterThread(std::function<void(const Status&)> on_failure);
  WriterThread(const WriterThread&) = delete;
  WriterThread& operator=(const WriterThread&) = delete;
  ~WriterThread();  // writes what waits

  // An empty buffer, one that was used before if possible.
  std::unique_ptr<StepBuffer> TakeBuffer();
  void GiveBack(std::unique_ptr<StepBuffer> buffer);
  void Submit(std::unique_ptr<StepBuffer> step, std::shared_ptr<Sink> sink);
  // Returns when everything submitted before is written; the first failure since the last call.
  Status Flush();
  void Close();

 private:
  struct Job {
    std::unique_ptr<StepBuffer> step;
    std::shared_ptr<Sink> sink;
  };

  void Loop();
  void Write(Job& job);
  void Note(const Status& status);

  const std::function<void(const Status&)> on_failure_;
  RowBuilder rows_;             // of the thread, or of the caller where there is none
  std::shared_ptr<Sink> last_;  // the same; null: nothing is to be tried again
  int64_t last_step_ = 0;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable moved_;
  std::deque<Job> jobs_;
  std::vector<std::unique_ptr<StepBuffer>> free_;
  uint64_t done_ = 0;  // jobs written
  bool is_busy_ = false;
  bool closed_ = false;
  bool is_stuck_ = false;
  bool told_ = false;
  Status failure_;
  std::thread thread_;
};

}  // namespace msprobe::monitor
