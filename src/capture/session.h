// A capture from its configuration to its end: which steps are recorded, and where.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <sys/types.h>

#include "msprobe/status.h"

#include "src/base/threads.h"
#include "src/capture/engine.h"
#include "src/capture/step_recording.h"
#include "src/dump/record_log.h"

namespace msprobe::capture {

// Call stacks, each distinct one once.

// Thread-safe. Ids are valid for the life of the table, and so are the frames behind them.
class Stacks {
 public:
  // Innermost frame first. Equal stacks get equal ids.
  uint32_t Register(const std::vector<dump::LogFrame>& frames);
  // Null for an id that was never given out.
  const std::vector<dump::LogFrame>* Find(uint32_t id) const;

 private:
  struct Stack {
    std::string key;  // all texts of the frames, which view into it
    std::vector<dump::LogFrame> frames;
  };
  mutable std::mutex mutex_;
  std::deque<Stack> stacks_;  // elements stay where they are
  std::unordered_map<std::string_view, uint32_t> id_by_key_;
};

// Thread-safe, but for what says otherwise.
class Session {
 public:
  // Creates no file. Warnings of the settings are logged.
  static Result<std::unique_ptr<Session>> Open(Settings settings);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();  // Close

  enum class Outcome { kOff, kOn, kFinished };
  Result<Outcome> Start(std::optional<int64_t> rank);
  // The requests in the batch of the next Start, in the order of their rows.
  Status SetBatch(std::vector<RequestRows> requests);
  Status Stop();
  Status Step();
  Status SetInitStep(int64_t step);
  int64_t current_step() const;
  Status Close();
  // In the child of a fork, where threads and locks of the parent have no owner: a session with the
  // same settings and step that records nothing yet. The other one is left as it is for good.
  static std::unique_ptr<Session> AfterFork(std::unique_ptr<Session> parents);

  Wanted Enter(std::string_view name);
  Wanted Leave(std::string_view name);
  bool WantsParametersGrad(std::string_view module);

  Status SetConstruct(std::string_view name, std::optional<std::string_view> parent);
  uint32_t RegisterStack(const std::vector<dump::LogFrame>& frames);
  Status SetStack(std::string_view name, uint32_t id);
  Status FillStatistics(uint64_t ticket, const std::array<double, 4>& values);
  // What layout.json says from now on; the folders of steps that end later have it.
  void SetLayout(std::string text) { engine_->layout.Set(std::move(text)); }
  void ReportError(std::string_view name, std::string_view text);
  // A record that could not even be begun: the step that records now, if any, is not complete.
  void CountLostRecord() noexcept;
  // Level L2 only.
  Status BeginKernelDump();
  Status EndKernelDump();

  // False in a forked child in which AfterFork was not called: nothing here may be touched then.
  bool InOwnProcess() const;

  // The step that records now; null when none does.
  std::shared_ptr<StepRecording> recording() const;
  // An entry to describe a call with; inactive when nothing is recorded.
  std::unique_ptr<Entry> BeginEntry(std::string_view name);
  std::unique_ptr<Entry> BeginPendingEntry(uint64_t ticket);

  const std::string& settings_json() const { return settings_json_; }
  Engine& engine() const { return *engine_; }

 private:
  struct BeginningStep;  // the folder of a step while another thread makes it
  Session(std::shared_ptr<Engine> engine, std::string settings_json);
  bool IsSelected(int64_t step) const;
  bool IsRankSelected(std::optional<int64_t> rank);
  Status FinishRecording();  // life_mutex_ held, as by the three that follow
  // The slices of the batch to record; nullopt: the batch does not belong to the request.
  std::optional<std::vector<TensorSlice>> SlicesOfBatch();
  Result<std::shared_ptr<StepRecording>> BeginRecording(int64_t step, std::optional<int64_t> rank);
  // The same for a program that must not wait: null when the step is dropped.
  Result<std::shared_ptr<StepRecording>> BeginWithinBudget(int64_t step,
                                                           std::optional<int64_t> rank);
  // Whether a call that begins is left out because the step has had its time.
  bool IsOutOfTime(StepRecording& recording, std::string_view name);
  Wanted Ask(std::string_view name, Wanted (Filters::*question)(std::string_view));

  std::shared_ptr<Engine> engine_;
  const std::string settings_json_;
  std::unique_ptr<Stacks> stacks_;
  const pid_t process_id_;

  std::mutex life_mutex_;  // start, stop, step, close
  bool told_unknown_rank_ = false;
  std::atomic<bool> kernels_wanted_{false};  // level L2, in a step that is selected
  bool kernels_dumped_ = false;              // right now
  std::optional<int64_t> rank_;              // of the last start
  std::vector<RequestRows> batch_;           // of the next start
  bool told_missing_request_ = false;
  std::shared_ptr<BeginningStep> last_beginning_;
  const bool has_windows_;  // of the filters

  std::mutex open_calls_mutex_;                 // only with a budget
  std::unordered_set<std::string> open_calls_;  // began while there was time

  mutable std::mutex mutex_;  // of the two below; short
  std::shared_ptr<StepRecording> recording_;
  int64_t current_step_ = 0;

  // Only with a budget: work that touches the disk. Last, so that it ends first.
  using Tasks = base::WorkQueue<std::function<void()>>;
  std::unique_ptr<Tasks> begins_;
  std::unique_ptr<Tasks> ends_;
};

}  // namespace msprobe::capture
