// One step under capture: its folder, its log, its tensor files.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "msprobe/dtype.h"
#include "msprobe/status.h"

#include "src/capture/bench_step.h"
#include "src/capture/engine.h"
#include "src/capture/log_writer.h"
#include "src/capture/manifest.h"
#include "src/capture/step_folder.h"
#include "src/capture/tensor_files.h"
#include "src/capture/tensor_values.h"
#include "src/dump/record_log.h"
#include "src/json/writer.h"

namespace msprobe::capture {

class StepRecording {
 public:
  // Makes and claims the folder; the JSON files are there from now on. `rank` not known: nullopt.
  static Result<std::shared_ptr<StepRecording>> Begin(std::shared_ptr<Engine> engine, int64_t step,
                                                      std::optional<int64_t> rank);
  StepRecording(const StepRecording&) = delete;
  StepRecording& operator=(const StepRecording&) = delete;

  int64_t step() const { return step_; }
  std::optional<int64_t> rank() const { return folder_.place().rank; }
  const base::Path& folder() const { return folder_.path(); }
  Engine& engine() const { return *engine_; }
  const Settings& settings() const { return engine_->settings; }
  StatisticRules statistic_rules() const;
  json::Writer::NonFinite non_finite() const;
  // Null when calls are not sent to a checker; where they are, nothing is written.
  OnlineCalls* online() const { return engine_->online.get(); }
  // Null when no tensor is saved.
  const std::shared_ptr<TensorFiles>& tensor_files() const { return tensor_files_; }
  bool SavesTensors(std::string_view name) const;

  // The following are thread-safe, and cheap.

  // Records that belong together. False when they are lost, which is counted: the step has ended,
  // the disk is full, or there is no memory.
  bool Append(std::string_view records);
  // Whether records of this size fit into the budget; the call that they are about is counted as
  // dropped where not, with the files that it would have had.
  bool TakeRecordBytes(size_t bytes, size_t files);
  void CountDroppedCall() { CountDropped(1, 0); }
  void CountDroppedFile() { CountDropped(0, 1); }
  Status LostError() const;  // why Append failed
  // Something that was to be recorded will be missing: the step is not complete.
  void CountLostRecord() noexcept { ++lost_record_count_; }
  void CountEntry(uint64_t tensors);
  // Task nan_check: a call whose results are not finite, which is reported.
  void CountNonFinite(std::string_view name, uint64_t nans, uint64_t infinities);
  void ReportError(std::string_view name, std::string_view text) { errors_->Report(name, text); }
  // An empty `text` takes it back.
  void Remark(Remarks::Kind kind, std::string_view name, std::string_view text);

  // Search for differences: the earlier dump, null where there is none; what a call was found to
  // be, which is reported and may end the capture.
  std::shared_ptr<const BenchStep> bench() const;
  void CountCompared(std::string_view name, const BenchStep::Answer& answer);

  // Places for values that come later. Tickets are numbered through all steps.
  uint64_t TakeTickets(size_t count);  // the first of them
  uint64_t AddPlace(PendingPlace place);
  std::optional<PendingPlace> FindPlace(uint64_t ticket) const;
  // The first of four tickets: Max, Min, Mean, Norm of a tensor.
  uint64_t AddStatistics(DType dtype, bool is_scalar, bool is_numpy);
  Status FillStatistics(uint64_t ticket, const std::array<double, 4>& values);
  Status FillStatistics(uint64_t ticket, const Statistics& statistics);

  // The batch of the forward that comes, and the parts of tensors that are recorded in it.
  void SetBatch(std::vector<RequestRows> requests, std::vector<TensorSlice> slices);
  bool has_slices() const { return has_slices_.load(std::memory_order_relaxed); }
  void Narrow(TensorDescription& tensor) const;

  Status SetConstruct(std::string_view name, std::optional<std::string_view> parent);
  // `id` as in Stacks; its frames are recorded with its first name in this step.
  Status SetStack(std::string_view name, uint32_t id, const std::vector<dump::LogFrame>& frames);

  // The following are called by one thread at a time.

  // Notes that the step is over, where its files are written later.
  void NoteEnd();
  // Brings the JSON files up to date.
  Status WriteJson();
  Status MoveToRank(int64_t rank);
  // The JSON files, all tensor files, the manifest; records.log is gone then, unless something
  // could not be written. Records nothing any more.
  Status Finish();
  // In the child of a fork: closes what keeps the parent's lock, and nothing else.
  void AbandonAfterFork();

 private:
  struct DeferredStatistics {
    DType dtype = DType::kFloat32;
    bool is_scalar = false;
    bool is_numpy = false;
  };

  StepRecording(std::shared_ptr<Engine> engine, StepFolder folder);
  static Result<std::shared_ptr<StepRecording>> BeginOnline(std::shared_ptr<Engine> engine,
                                                            StepPlace place);
  dump::LogHeader MakeHeader() const;
  void TellReplaced() const;
  Status LoadBench();
  void TellDifferences() const;
  std::string CallerOf(std::string_view name) const;  // "; called from a.py:3"
  // The steps of Finish() that need memory.
  Status FinishJson();
  Status WriteLastManifest(bool json_written);
  void CountDropped(uint64_t records, uint64_t files);
  Status WriteStart();
  Status WriteLayout();

  const std::shared_ptr<Engine> engine_;
  StepFolder folder_;
  const int64_t step_;  // for all threads; the rest of folder_ may move to another rank
  const std::shared_ptr<ErrorLog> errors_;
  std::shared_ptr<TensorFiles> tensor_files_;
  const double begin_seconds_;
  const double engine_seconds_at_begin_;
  const double repeat_seconds_at_begin_;
  std::optional<double> end_seconds_;
  double engine_seconds_at_end_ = 0;
  double repeat_seconds_at_end_ = 0;
  size_t start_bytes_ = 0;       // of the log's start
  bool start_outdated_ = false;  // dump_data_dir stands in it, and the folder has moved
  std::atomic<bool> closed_{false};
  std::atomic<uint64_t> tensor_count_{0};
  std::atomic<uint64_t> lost_record_count_{0};
  std::atomic<uint64_t> dropped_records_{0};
  std::atomic<uint64_t> dropped_files_{0};
  std::atomic<uint64_t> non_finite_calls_{0};
  std::atomic<uint64_t> compared_calls_{0};  // with the same inputs as in the earlier dump
  std::atomic<uint64_t> differing_calls_{0};
  const uint64_t dropped_steps_;
  std::atomic<bool> has_slices_{false};
  std::atomic<uint64_t> change_count_{1};  // appends; compared with what the JSON files hold
  uint64_t written_change_count_ = 0;
  uint64_t name_count_ = 0;      // in the JSON files
  uint64_t written_layout_ = 0;  // the version that the folder holds

  mutable std::mutex mutex_;  // of the eleven below
  Remarks remarks_;
  std::string first_non_finite_;
  std::string first_difference_;
  std::shared_ptr<const BenchStep> bench_;
  std::unordered_map<std::string, uint32_t> stack_of_;         // with bench_ alone
  std::unordered_map<uint32_t, std::string> caller_of_stack_;  // the same
  std::vector<RequestRows> requests_;
  std::vector<TensorSlice> slices_;
  std::unordered_map<uint64_t, PendingPlace> places_;
  std::unordered_map<uint64_t, DeferredStatistics> deferred_;
  std::vector<bool> recorded_stacks_;  // by id

  std::unique_ptr<LogWriter> log_;  // null: nothing is written
};

}  // namespace msprobe::capture
