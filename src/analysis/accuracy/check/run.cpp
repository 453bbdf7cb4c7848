#include "src/analysis/accuracy/check/run.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/accuracy/check/api_lists.h"
#include "src/analysis/accuracy/check/call_maker.h"
#include "src/analysis/accuracy/check/dump_calls.h"
#include "src/analysis/accuracy/check/error_data.h"
#include "src/analysis/accuracy/check/mindspore.h"
#include "src/analysis/accuracy/check/result_files.h"
#include "src/analysis/accuracy/check/start_worker.h"
#include "src/analysis/accuracy/check/worker.h"
#include "src/analysis/accuracy/common/output_judge.h"
#include "src/base/progress.h"
#include "src/base/stopwatch.h"
#include "src/base/strings.h"
#include "src/base/thread_pool.h"

namespace msprobe::analysis::accuracy {
namespace {

namespace fs = std::filesystem;

// Everything about one operator that goes into the files and the answer.
struct FinishedCall {
  std::vector<DetailRow> details;
  std::vector<std::string> result;
  CheckedOperator checked;
};

FinishedCall SkippedCall(const std::string& name, const std::string& why,
                         const CheckOptions& options) {
  FinishedCall finished;
  finished.details.push_back(
      BlankDetailRow(name + ".forward.output.0", Outcome::kSkip, why, options.version));
  finished.result = {name, "SKIP", "SKIP", why};
  finished.checked.name = name;
  finished.checked.forward = Outcome::kSkip;
  finished.checked.backward = Outcome::kSkip;
  finished.checked.message = FirstLine(why);
  return finished;
}

// One queue of calls for all workers; rows are written in the order of the queue.
class Checking {
 public:
  Checking(const CheckOptions& options, const Standards& standards, const DumpCalls& dump,
           const CallMaker& maker, std::vector<size_t> queue, ResultFiles& files)
      : options_(options),
        standards_(standards),
        dump_(dump),
        queue_(std::move(queue)),
        files_(files),
        maker_(maker),
        finished_(queue_.size()),
        progress_("checking", queue_.size(), "operators", options.quiet) {}

  // `first` is running; up to `workers` are used.
  Status Run(WorkerPointer first, const std::string& python, size_t workers, Check& check) {
    std::vector<WorkerPointer> processes;
    processes.push_back(std::move(first));
    for (size_t i = 1; i < std::min(workers, queue_.size()); ++i) {
      processes.push_back(std::make_unique<Worker>(WorkerOptionsOf(options_, python, i, workers)));
    }
    // The system ends a worker with the thread that started it.
    std::vector<std::thread> threads;
    for (size_t i = 1; i < processes.size(); ++i) {
      try {
        threads.emplace_back([this, &processes, i] { Serve(*processes[i]); });
      } catch (const std::system_error&) {
        break;  // no more threads are to be had: those that run do the work
      }
    }
    Serve(*processes[0]);
    for (std::thread& thread : threads) {
      thread.join();
    }
    check.framework = processes[0]->greeting().framework;
    check.device = processes[0]->greeting().device;
    for (const WorkerPointer& process : processes) {
      check.restarts += process->starts() > 1 ? process->starts() - 1 : 0;
    }
    for (std::optional<FinishedCall>& call : finished_) {
      if (call) {
        check.operators.push_back(std::move(call->checked));
      }
    }
    return std::move(status_);
  }

 private:
  void Fail(Status status) {
    const std::lock_guard lock(mutex_);
    if (status_.ok()) {
      status_ = std::move(status);
    }
    stopped_ = true;
  }

  void Serve(Worker& worker) {
    while (!stopped_) {
      std::unique_lock lock(mutex_);
      if (next_ == queue_.size()) {
        return;
      }
      const DumpCall& upcoming = dump_.calls[queue_[next_]];
      if (const std::optional<std::string> why = maker_.WhyNot(upcoming); why) {
        const size_t place = next_++;
        lock.unlock();
        Finish(place, SkippedCall(upcoming.name, *why, options_));
        continue;
      }
      lock.unlock();
      if (Status status = worker.Start(); !status.ok()) {
        Fail(std::move(status));
        return;
      }
      lock.lock();
      if (next_ == queue_.size()) {
        return;
      }
      const size_t place = next_++;
      const DumpCall& call = dump_.calls[queue_[place]];
      if (const std::optional<std::string> why = maker_.WhyNot(call); why) {
        lock.unlock();
        Finish(place, SkippedCall(call.name, *why, options_));
        continue;
      }
      // What is drawn depends on all that was drawn before.
      const bool is_drawn = dump_.tensor_folder.empty() && !options_.seed_per_operator;
      if (!is_drawn) {
        lock.unlock();
      }
      worker.arguments().Clear();
      Result<MadeCall> made = maker_.Make(call, generator_, worker.arguments(), false);
      if (is_drawn) {
        lock.unlock();
      }
      Finish(place, made.ok() ? CheckCall(call, *made, worker)
                              : SkippedCall(call.name, made.status().message(), options_));
    }
  }

  FinishedCall CheckCall(const DumpCall& call, const MadeCall& made, Worker& worker) {
    const Result<WorkerAnswer> answer = worker.Call(made.frame);
    if (!answer.ok()) {
      return SkippedCall(call.name, answer.status().message(), options_);
    }
    if (answer->failed) {
      SaveFailed(call, made, worker, *answer);
      return SkippedCall(call.name, answer->message, options_);
    }
    OutputJudgeOptions judge;
    judge.version = options_.version;
    judge.decimals = options_.decimals;
    judge.strict = options_.strict;
    judge.has_float8_input = made.has_float8_input;
    Result<JudgedOutputs> forward =
        JudgeOutputs(call.name, "forward", answer->bench, answer->device, standards_, judge);
    if (!forward.ok()) {
      return SkippedCall(call.name, forward.status().message(), options_);
    }
    FinishedCall finished;
    finished.checked.name = call.name;
    finished.checked.forward = forward->outcome;
    finished.checked.max_abs = forward->max_abs;
    finished.checked.only_equal_non_finite = forward->only_equal_non_finite;
    finished.details = std::move(forward->rows);
    const bool small = options_.version == StandardVersion::k26;
    finished.result = {call.name, std::string(OutcomeText(forward->outcome, small)),
                       std::string(kBlank)};
    if (!answer->message.empty()) {
      finished.details.push_back(BlankDetailRow(call.name + ".backward.output.0", Outcome::kSkip,
                                                answer->message, options_.version));
      finished.result[2] = OutcomeText(Outcome::kSkip);
      finished.result.push_back(answer->message);
      finished.checked.has_backward = true;
      finished.checked.backward = Outcome::kSkip;
      finished.checked.message = FirstLine(answer->message);
    } else if (answer->has_gradients) {
      Result<JudgedOutputs> backward = JudgeOutputs(call.name, "backward", answer->bench_gradients,
                                                    answer->device_gradients, standards_, judge);
      if (!backward.ok()) {
        return SkippedCall(call.name, backward.status().message(), options_);
      }
      finished.result[2] = OutcomeText(backward->outcome, small);
      finished.checked.has_backward = true;
      finished.checked.backward = backward->outcome;
      finished.checked.max_abs = std::max(finished.checked.max_abs, backward->max_abs);
      finished.checked.only_equal_non_finite =
          (forward->only_equal_non_finite || forward->outcome != Outcome::kError) &&
          (backward->only_equal_non_finite || backward->outcome != Outcome::kError);
      for (DetailRow& row : backward->rows) {
        finished.details.push_back(std::move(row));
      }
    }
    for (const DetailRow& row : finished.details) {
      if (finished.checked.message.empty() && row.outcome == Outcome::kError) {
        finished.checked.message = FirstLine(row.cells[detail_column::kMessage]);
      }
    }
    if (finished.checked.forward != Outcome::kPass ||
        (finished.checked.has_backward && finished.checked.backward != Outcome::kPass)) {
      SaveFailed(call, made, worker, *answer);
    }
    return finished;
  }

  void SaveFailed(const DumpCall& call, const MadeCall& made, Worker& worker,
                  const WorkerAnswer& answer) {
    if (!options_.save_error_data) {
      return;
    }
    const fs::path folder =
        options_.error_data_folder / fmt::format("ut_error_data{}", files_.time());
    if (Status status = SaveErrorData(folder, call.name, made, worker.arguments(), answer);
        !status.ok()) {
      const std::lock_guard lock(mutex_);
      warnings_.push_back(fmt::format("{}: {}", call.name, status.message()));
    }
  }

  // Rows appear when all before them are there.
  void Finish(size_t place, FinishedCall call) {
    const std::lock_guard lock(writing_);
    finished_[place] = std::move(call);
    for (; written_ < finished_.size() && finished_[written_]; ++written_) {
      FinishedCall& next = *finished_[written_];
      std::vector<std::vector<std::string>> rows;
      for (DetailRow& row : next.details) {
        rows.emplace_back(row.cells.begin(), row.cells.end());
      }
      if (Status status = files_.Append(rows, next.result); !status.ok()) {
        Fail(std::move(status));
        return;
      }
      next.details = {};
      next.result = {};
    }
    progress_.Add();
  }

 public:
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  const CheckOptions& options_;
  const Standards& standards_;
  const DumpCalls& dump_;
  const std::vector<size_t> queue_;
  ResultFiles& files_;
  const CallMaker& maker_;
  TorchGenerator generator_;
  std::mutex mutex_;  // of the queue, the generator and the status
  size_t next_ = 0;
  Status status_;
  std::atomic<bool> stopped_{false};
  std::mutex writing_;  // of what is below
  std::vector<std::optional<FinishedCall>> finished_;
  size_t written_ = 0;
  base::Progress progress_;
  std::vector<std::string> warnings_;
};

}  // namespace

Status CheckLists(const CheckOptions& options) {
  for (const auto& [name, list] : {std::pair{"white_list", &options.white_list},
                                   std::pair{"black_list", &options.black_list}}) {
    std::vector<std::string> unknown;
    for (const std::string& api : *list) {
      if (!IsKnownAnywhere(api)) {
        unknown.push_back(base::Printable(api));
      }
    }
    if (!unknown.empty() && options.reference_file.empty()) {
      return UsageError(fmt::format("Invalid api in {}: [{}]", name, base::Join(unknown, ", ")));
    }
  }
  return {};
}

Outcome CheckedOperator::outcome() const {
  if (!has_backward || forward == Outcome::kSkip) {
    return forward;
  }
  if (forward == Outcome::kError || backward == Outcome::kError) {
    return Outcome::kError;
  }
  return backward == Outcome::kWarning ? backward : forward;
}

Outcome CheckedOperator::verdict() const {
  if (!fails_only_the_rule()) {
    return outcome();
  }
  const bool warns =
      forward == Outcome::kWarning || (has_backward && backward == Outcome::kWarning);
  return warns ? Outcome::kWarning : Outcome::kPass;
}

Result<Check> Run(const CheckOptions& options) {
  const base::Stopwatch watch;
  MSP_RETURN_IF_ERROR(CheckLists(options));
  Standards standards = Standards::BuiltIn();
  if (!options.standards_file.empty()) {
    MSP_ASSIGN_OR_RETURN(standards, Standards::Load(options.standards_file));
  }
  if (options.quantised) {
    standards.SetQuantised(*options.quantised);
  }
  MSP_ASSIGN_OR_RETURN(const DumpCalls dump, ReadDumpCalls(options.dump));
  MSP_ASSIGN_OR_RETURN(const dump::EntryAccess records, dump::EntryAccess::Open(options.dump));
  if (options.mindspore || dump.framework == "mindspore" || dump.framework == "mindtorch") {
    return RunMindSpore(options, standards, dump, records);
  }
  Check check;
  check.warnings = dump.warnings;
  check.truncated = dump.truncated;
  check.worst = options.worst;
  check.limits = fmt::format("{}, {}", options.version == StandardVersion::k26 ? "26.x" : "8.1.1",
                             standards.source());
  std::vector<bool> repeated(dump.calls.size());
  if (options.filter) {
    MSP_ASSIGN_OR_RETURN(repeated, RepeatedCalls(dump, records, options.strict));
  }
  // Before there are any files; a dump without a call that can be run needs none.
  const size_t workers = std::max<size_t>(1, std::min(options.workers, dump.calls.size()));
  const CallMaker maker(options, standards, dump, records);
  std::string python = options.pythons.front();
  auto first = std::make_unique<Worker>(WorkerOptionsOf(options, python, 0, workers));
  if (std::any_of(dump.calls.begin(), dump.calls.end(),
                  [&](const DumpCall& call) { return !maker.WhyNot(call); })) {
    MSP_ASSIGN_OR_RETURN(first, StartFirst(options, workers, python, check.warnings));
  }
  std::vector<std::string_view> details_header;
  for (const ColumnName& column : kDetailColumns) {
    details_header.push_back(column.In(options.english));
  }
  MSP_ASSIGN_OR_RETURN(ResultFiles files,
                       options.resumed_file.empty()
                           ? ResultFiles::Create(options.output, kResultColumns, details_header)
                           : ResultFiles::Resume(options.resumed_file));
  std::vector<size_t> queue;
  for (size_t i = 0; i < dump.calls.size(); ++i) {
    if (repeated[i]) {
      ++check.left_out;
    } else if (files.finished().contains(dump.calls[i].name)) {
      ++check.finished_before;
    } else {
      queue.push_back(i);
    }
  }
  Checking checking(options, standards, dump, maker, std::move(queue), files);
  MSP_RETURN_IF_ERROR(checking.Run(std::move(first), python, workers, check));
  for (const std::string& warning : checking.warnings()) {
    check.warnings.push_back(warning);
  }
  for (const CheckedOperator& checked : check.operators) {
    check.forward.Add(checked.forward);
    if (checked.has_backward) {
      check.backward.Add(checked.backward);
    }
  }
  check.files = {files.result_path(), files.details_path()};
  check.seconds = watch.seconds();
  return check;
}

}  // namespace msprobe::analysis::accuracy
