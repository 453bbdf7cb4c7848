// A monitor from its configuration to its end: names, steps, what is measured in them, and the
// thread that writes it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <sys/types.h>

#include "msprobe/status.h"

#include "src/base/bounded_expression.h"
#include "src/base/threads.h"
#include "src/monitor/measure.h"
#include "src/monitor/output_folder.h"
#include "src/monitor/row_builder.h"
#include "src/monitor/schedule.h"
#include "src/monitor/settings.h"

namespace msprobe::monitor {

// The thread that turns steps into files, so that training does not wait for a
// disk.

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
  // Retry interval after a full disk.
  static constexpr std::chrono::seconds kRetryInterval{1};

  // `on_failure` hears of the first failure and of the first step that is lost.
  // Rows that still wait are written at the end.
  explicit WriterThread(std::function<void(const Status&)> on_failure);
  WriterThread(const WriterThread&) = delete;
  WriterThread& operator=(const WriterThread&) = delete;

  // An empty buffer, one that was used before if possible.
  std::unique_ptr<StepBuffer> TakeBuffer();
  void GiveBack(std::unique_ptr<StepBuffer> buffer);
  void Submit(std::unique_ptr<StepBuffer> step, std::shared_ptr<Sink> sink);
  // Returns when everything submitted before is written; the first failure since the last call.
  Status Flush();
  void Close() { queue_.StopWithin({}); }

 private:
  struct Job {
    std::unique_ptr<StepBuffer> step;
    std::shared_ptr<Sink> sink;
  };

  void Write(Job& job);
  void Retry();
  void Note(const Status& status);

  const std::function<void(const Status&)> on_failure_;
  RowBuilder rows_;             // of the thread, or of the caller where there is none
  std::shared_ptr<Sink> last_;  // the same; null: nothing is to be tried again
  int64_t last_step_ = 0;

  std::mutex mutex_;
  std::vector<std::unique_ptr<StepBuffer>> free_;
  bool told_ = false;
  base::FirstError failure_;
  std::atomic<bool> is_stuck_{false};
  base::WorkQueue<Job> queue_;  // last: its thread uses the others
};

// Selects one value of a slot.
struct Spot {
  uint32_t slot = 0;
  int32_t index = kNone;
  int32_t micro_step = kNone;
};

// Thread-safe. Nothing here stops a training: failures to write are reported once and returned.
class Engine {
 public:
  // Creates nothing. Warnings of the settings are logged.
  static Result<std::unique_ptr<Engine>> Open(const std::filesystem::path& config_path,
                                              std::string_view overrides_json,
                                              std::string_view framework);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  const char* settings_json() const;  // valid until the settings change
  Status SetOps(std::string_view json_list);
  Status SetTopology(RankTopology topology);
  std::string output_folder() const;  // empty: nothing is written
  // Whether one of the expressions of cc_codeline is found in the text of a call stack; also where
  // there are none. One that takes too long is given up with a warning.
  bool SelectsStack(std::string_view stack);

  std::optional<std::string> NameParameter(int32_t stage, std::string_view full_name);
  std::optional<std::string> NameModule(int32_t stage, std::string_view full_name);
  std::optional<std::string> NameFeatureModule(FeatureHook hook, int32_t stage,
                                               std::string_view full_name);
  void ForgetNames();

  struct Next {
    State state = State::kOff;
    bool is_changed = false;  // the settings
  };
  Result<Next> Begin(int64_t step);
  Result<Next> EndStep();
  int64_t current_step() const;
  Status Flush();
  Status Close();

  // 0: the name is none.
  uint32_t Slot(Table table, std::string_view name, std::string_view task);

  // False: this step is not watched, and what is put is dropped.
  bool is_on() const { return is_on_.load(std::memory_order_relaxed); }
  MeasureRules rules() const;

  // The newest numbers of a spot win and keep the place of the first. `shape` and `dtype_text` as
  // the row tells them.
  Status Put(const Spot& spot, const TensorNumbers& numbers, std::span<const int64_t> shape,
             std::string_view dtype_text);
  Status Accumulate(const Spot& spot, const TensorNumbers& numbers, std::span<const int64_t> shape,
                    std::string_view dtype_text);
  Status PutNumber(const Spot& spot, double value);
  // One number per column of the table of a FeatureHook.
  Status PutFeatures(const Spot& spot, std::span<const double> numbers);
  // Numbers that come before the end of the step, see Fill. 0: this step is not watched.
  Result<uint64_t> PutDeferred(const Spot& spot, std::optional<DType> dtype,
                               std::span<const int64_t> shape, std::string_view dtype_text);
  Status Fill(uint64_t ticket, std::span<const double> numbers);

  std::string RowsJson(Table table);
  Status WriteFile(std::string_view name, std::string_view content);

  // False in a forked child, where threads and locks are the parent's.
  bool InOwnProcess() const;

 private:
  // The values of a slot in the present step, in the order of their last step.
  struct SpotPlace {
    int32_t index = kNone;
    int32_t micro_step = kNone;
    uint32_t record = 0;
    uint64_t serial = 0;  // of the step that `record` belongs to
  };
  struct SlotState {
    std::unique_ptr<const SlotInfo> info;
    std::vector<SpotPlace> spots;
    size_t cursor = 0;                        // where the next value is expected
    const std::string* dtype_text = nullptr;  // of the last value
  };

  Engine(std::filesystem::path config_path, std::string overrides_json, std::string framework,
         const std::shared_ptr<const Settings>& settings);

  // All below: with mutex_ held.
  bool IsRankSelected() const;
  Status OpenSink();
  void UseSettings();
  void UseCodeLines();
  Next Conclude(bool is_changed);
  Result<Record*> RecordAt(const Spot& spot);
  void Describe(Record& record, SlotState& slot, std::span<const int64_t> shape,
                std::string_view dtype_text);
  const std::string* Intern(std::string_view text);

  const std::string framework_;
  const std::filesystem::path output_root_;
  const pid_t process_id_;
  std::atomic<bool> is_on_{false};

  mutable std::mutex mutex_;
  std::shared_ptr<const Settings> settings_;
  std::string settings_json_;
  Schedule schedule_;
  WatchedNames names_;
  RankTopology topology_;
  bool has_topology_ = false;
  std::filesystem::path folder_;
  std::shared_ptr<Sink> sink_;
  Status sink_failure_;
  std::vector<SlotState> slots_;  // slot s is slots_[s - 1]
  std::map<std::tuple<Table, std::string, std::string>, uint32_t> slot_of_name_;
  std::map<std::string, uint32_t, std::less<>> group_of_module_;
  std::deque<std::string> texts_;
  std::unique_ptr<StepBuffer> step_;
  uint64_t serial_ = 1;  // of step_
  int64_t next_call_id_ = 0;
  MeasureRules rules_;
  std::vector<base::BoundedExpression> code_lines_;
  RowBuilder api_rows_;
  WriterThread writer_;
};

}  // namespace msprobe::monitor
