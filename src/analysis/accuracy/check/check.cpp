#include "src/analysis/accuracy/check/check.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "msprobe/status.h"
#include "msprobe/tensor_file.h"
#include "msprobe/tensor_view.h"

#include "src/analysis/accuracy/check/api_lists.h"
#include "src/analysis/accuracy/check/arguments.h"
#include "src/analysis/accuracy/check/call_maker.h"
#include "src/analysis/accuracy/check/options.h"
#include "src/analysis/accuracy/check/result_files.h"
#include "src/analysis/accuracy/check/worker.h"
#include "src/analysis/accuracy/common/outcome.h"
#include "src/analysis/accuracy/common/output_judge.h"
#include "src/analysis/accuracy/common/standards.h"
#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/dump/entry_scan.h"
#include "src/kernels/element_pairs.h"

namespace msprobe::analysis::accuracy {
namespace {

// Dumps of MindSpore and MindTorch: the operators that PyTorch has as well, with PyTorch on the
// CPU, in the same dtypes, as the bench.

// Columns of the details file of these checks.
constexpr std::array<std::string_view, 9> kMindSporeColumns = {
    "API Name",  "Bench Dtype",    "Tested Dtype", "Shape",  "Cosine",
    "MaxAbsErr", "MaxRelativeErr", "Status",       "Message"};

struct MindSporeJudgement {
  std::array<std::string, kMindSporeColumns.size()> cells;
  bool passes = false;
  std::string message;
  double max_abs = 0;
};
// A pair of outputs or gradients; nullopt: it is not a tensor.
MindSporeJudgement JudgeMindSpore(std::string name, const std::optional<TensorView>& bench,
                                  const std::optional<TensorView>& tested, const Limits& limits);

// Tensors of an operator that failed, as .pt files.

class Saver {
 public:
  Saver(const std::filesystem::path& folder, std::string_view name, std::string_view what)
      : stem_(folder / fmt::format("{}.{}", name, what)) {}

  Status Add(const TensorView* view) {
    const size_t number = next_++;
    if (view == nullptr) {
      return {};
    }
    std::filesystem::path path = stem_;
    path += fmt::format(".{}.pt", number);
    return WritePtFile(path, *view);
  }
  Status Add(const OutputValue& value) {
    if (value.kind == OutputValue::Kind::kList || value.kind == OutputValue::Kind::kDict) {
      for (const OutputValue& item : value.items) {
        MSP_RETURN_IF_ERROR(Add(item));
      }
      return {};
    }
    return Add(value.kind == OutputValue::Kind::kTensor ? &value.tensor : nullptr);
  }

 private:
  const std::filesystem::path stem_;
  size_t next_ = 0;
};

// <operator>.forward.input.<i>.pt, .forward.kwargs, .forward.output.bench, .forward.output.device,
// .backward.input, .backward.output.bench, .backward.output.device; i counts every leaf.
Status SaveErrorData(const std::filesystem::path& folder, std::string_view name,
                     const MadeCall& call, SharedMemory& memory, const WorkerAnswer& answer) {
  MSP_RETURN_IF_ERROR(base::CreateFolders(folder));
  const std::pair<std::string_view, const std::vector<ArgumentMaker::Leaf>&> made[] = {
      {"forward.input", call.arguments},
      {"forward.kwargs", call.keywords},
      {"backward.input", call.gradients}};
  for (const auto& [what, leaves] : made) {
    Saver saver(folder, name, what);
    for (const ArgumentMaker::Leaf& leaf : leaves) {
      const std::optional<TensorView> view = leaf.View(memory);
      MSP_RETURN_IF_ERROR(saver.Add(view ? &*view : nullptr));
    }
  }
  const std::pair<std::string_view, const OutputValue&> outputs[] = {
      {"forward.output.bench", answer.bench},
      {"forward.output.device", answer.device},
      {"backward.output.bench", answer.bench_gradients},
      {"backward.output.device", answer.device_gradients}};
  for (const auto& [what, value] : outputs) {
    MSP_RETURN_IF_ERROR(Saver(folder, name, what).Add(value));
  }
  return {};
}

using dump::EntryTree;
using dump::NodeKind;

// Bits of a call's frame; the last: the tested values are in the dump, nothing else is run.
constexpr unsigned kMindSporeFlags = 1 | 2;
constexpr unsigned kMindSporeBackward = 4;
constexpr unsigned kMindSporeUnknown = 8;
constexpr unsigned kRecorded = 16;

constexpr double kTiny = 1e-8;  // keeps the divisors of both formulas from being 0

constexpr std::string_view kNoCosine =
    "two inputs are not valid for computing cosine similarity, skip comparing ";
constexpr std::string_view kNoMaxAbs =
    "two inputs are not valid for computing max absolute difference, skip comparing ";

std::string MindSporeDType(DType dtype) {
  const std::string_view name = GetDTypeInfo(dtype).mindspore;
  return std::string(name.empty() ? DTypeName(dtype) : name);
}

struct MindSporeMetrics {
  double cosine = 0;
  double max_abs = 0;
  double max_relative = 0;
};

MindSporeMetrics MeasureMindSpore(const TensorView& bench, const TensorView& tested) {
  MindSporeMetrics metrics;
  double dot = 0;
  double bench_squares = 0;
  double tested_squares = 0;
  const auto take = [](double value, double& largest) {
    largest = std::isnan(value) || value > largest ? value : largest;
  };
  kernels::ForEachPair<double>(bench, tested, [&](double b, double t) {
    dot += b * t;
    bench_squares += b * b;
    tested_squares += t * t;
    const double difference = std::fabs(b - t);
    take(difference, metrics.max_abs);
    take(difference / (b == 0 ? kTiny : std::fabs(b)), metrics.max_relative);
  });
  metrics.cosine = (kTiny + dot) / (kTiny + std::sqrt(bench_squares) * std::sqrt(tested_squares));
  return metrics;
}

// The tensors of a value in their order; nullopt for what is none.
void Flatten(const OutputValue& value, std::vector<std::optional<TensorView>>& out) {
  if (value.kind == OutputValue::Kind::kList || value.kind == OutputValue::Kind::kDict) {
    for (const OutputValue& item : value.items) {
      Flatten(item, out);
    }
  } else if (value.kind == OutputValue::Kind::kTensor) {
    out.emplace_back(value.tensor);
  } else {
    out.emplace_back();
  }
}

class MindSporeChecking {
 public:
  MindSporeChecking(const CheckOptions& options, const Standards& standards, const DumpCalls& dump,
                    const dump::EntryAccess& records, Worker& worker, ResultFiles& files)
      : options_(options),
        limits_(standards.limits()),
        dump_(dump),
        records_(records),
        worker_(worker),
        files_(files) {}

  Status CheckOne(const DumpCall& call, CheckedOperator& checked) {
    checked.name = call.name;
    rows_.clear();
    MSP_RETURN_IF_ERROR(worker_.Start());
    worker_.arguments().Clear();
    Status status = Make(call);
    if (status.ok()) {
      const Result<WorkerAnswer> answer = worker_.Call(made_.frame);
      status = !answer.ok()     ? answer.status()
               : answer->failed ? DeviceError(answer->message)
                                : Status();
      if (status.ok()) {
        Judge(call, *answer, checked);
        return files_.Append(rows_,
                             {call.name, std::string(OutcomeText(checked.forward)),
                              checked.has_backward ? std::string(OutcomeText(checked.backward))
                                                   : std::string(kBlank),
                              checked.message});
      }
    }
    checked.forward = checked.backward = Outcome::kSkip;
    checked.message = status.message();
    std::vector<std::string> row(kMindSporeColumns.size(), std::string(kBlank));
    row.front() = call.name + ".forward.output.0";
    row[row.size() - 2] = OutcomeText(Outcome::kSkip);
    row.back() = status.message();
    rows_.push_back(std::move(row));
    return files_.Append(rows_, {call.name, "SKIP", "SKIP", status.message()});
  }

 private:
  bool is_recorded() const { return !dump_.tensor_folder.empty(); }

  Status Make(const DumpCall& call) {
    MSP_ASSIGN_OR_RETURN(const EntryTree record,
                         records_.Read(call.forward.offset, call.forward.bytes));
    if (record[0].kind != NodeKind::kObject) {
      return BadFormatError("the record of the call is not an object");
    }
    const OperatorName name = *ParseOperatorName(call.name);
    MakeOptions make;
    make.tensor_folder = dump_.tensor_folder;
    make.for_mindspore = true;
    TorchGenerator unused;
    ArgumentMaker keywords(name.api, make, unused, worker_.arguments());
    FrameWriter keyword_values;
    MSP_RETURN_IF_ERROR(keywords.Keywords(record, record.Find(0, "input_kwargs"), keyword_values));
    ArgumentMaker arguments(name.api, make, unused, worker_.arguments());
    FrameWriter argument_values;
    MSP_RETURN_IF_ERROR(
        arguments.Positional(record, record.Find(0, "input_args"), argument_values));
    recorded_outputs_.clear();
    recorded_gradients_.clear();
    if (is_recorded()) {
      MSP_RETURN_IF_ERROR(arguments.Read(record, record.Find(0, "output"), recorded_outputs_));
    }
    FrameWriter gradient_values;
    gradient_values.Tag(frame_tag::kNone);
    unsigned flags = kMindSporeFlags | (is_recorded() ? kRecorded : 0U);
    if (call.backward) {
      MSP_ASSIGN_OR_RETURN(const EntryTree backward,
                           records_.Read(call.backward->offset, call.backward->bytes));
      ArgumentMaker gradients(name.api, make, unused, worker_.arguments());
      gradient_values = FrameWriter();
      MSP_RETURN_IF_ERROR(
          gradients.Positional(backward, backward.Find(0, "input"), gradient_values));
      if (is_recorded()) {
        MSP_RETURN_IF_ERROR(
            gradients.Read(backward, backward.Find(0, "output"), recorded_gradients_));
      }
      made_.gradients = gradients.leaves();
      flags |= kMindSporeBackward;
    }
    made_.arguments = arguments.leaves();
    made_.keywords = keywords.leaves();
    std::string message;
    const bool is_known = options_.vocabulary == Vocabulary::kMindTorch
                              ? IsKnownApi(name.type, name.api, StandardVersion::k811)
                              : IsKnownMindSporeApi(name.type, name.api);
    if (!is_known) {
      flags |= kMindSporeUnknown;
      message = fmt::format("{}.{} is not on the list of operators that a file may name", name.type,
                            name.api);
    }
    FrameWriter frame(FrameKind::kCall);
    frame.Text(name.type);
    frame.Text(name.api);
    frame.Byte(static_cast<uint8_t>(flags));
    for (int i = 0; i < 3; ++i) {
      frame.Text("");  // no other dtypes
    }
    frame.Integer(-1);
    frame.Text(message);
    frame.Append(argument_values);
    frame.Append(keyword_values);
    frame.Append(gradient_values);
    made_.frame = frame.Finish();
    return {};
  }

  std::vector<std::optional<TensorView>> Recorded(const std::vector<ArgumentMaker::Leaf>& leaves) {
    std::vector<std::optional<TensorView>> views;
    for (const ArgumentMaker::Leaf& leaf : leaves) {
      views.push_back(leaf.View(worker_.arguments()));
    }
    return views;
  }

  void Judge(const DumpCall& call, const WorkerAnswer& answer, CheckedOperator& checked) {
    std::vector<std::optional<TensorView>> bench;
    std::vector<std::optional<TensorView>> tested;
    Flatten(answer.bench, bench);
    if (is_recorded()) {
      tested = Recorded(recorded_outputs_);
    } else {
      Flatten(answer.device, tested);
    }
    checked.forward = JudgePairs(call.name + ".forward.output.", bench, tested, false, checked);
    if (!answer.bench_gradients.items.empty()) {
      bench.clear();
      tested.clear();
      Flatten(answer.bench_gradients, bench);
      if (is_recorded()) {
        tested = Recorded(recorded_gradients_);
      } else {
        Flatten(answer.device_gradients, tested);
      }
      checked.has_backward = true;
      checked.backward = JudgePairs(call.name + ".backward.output.", bench, tested, true, checked);
    }
    if (options_.save_error_data && checked.outcome() != Outcome::kPass) {
      // A failure to save has no other effect.
      (void)SaveErrorData(options_.output / "error_data", call.name, made_, worker_.arguments(),
                          answer)
          .ok();
    }
  }

  Outcome JudgePairs(const std::string& prefix, const std::vector<std::optional<TensorView>>& bench,
                     const std::vector<std::optional<TensorView>>& tested, bool only_floats,
                     CheckedOperator& checked) {
    Outcome outcome = Outcome::kPass;
    for (size_t i = 0; i < std::max(bench.size(), tested.size()); ++i) {
      const std::optional<TensorView> none;
      const std::optional<TensorView>& b = i < bench.size() ? bench[i] : none;
      const std::optional<TensorView>& t = i < tested.size() ? tested[i] : none;
      if (only_floats && (!b || GetDTypeInfo(b->dtype).kind != DTypeKind::kFloat)) {
        continue;
      }
      MindSporeJudgement judgement = JudgeMindSpore(prefix + std::to_string(i), b, t, limits_);
      if (!judgement.passes) {
        outcome = Outcome::kError;
        if (checked.message.empty()) {
          checked.message = judgement.message;
        }
      }
      checked.max_abs = std::max(checked.max_abs, judgement.max_abs);
      rows_.emplace_back(judgement.cells.begin(), judgement.cells.end());
    }
    return outcome;
  }

  const CheckOptions& options_;
  const Limits& limits_;
  const DumpCalls& dump_;
  const dump::EntryAccess& records_;
  Worker& worker_;
  ResultFiles& files_;
  MadeCall made_;
  std::vector<ArgumentMaker::Leaf> recorded_outputs_;
  std::vector<ArgumentMaker::Leaf> recorded_gradients_;
  std::vector<std::vector<std::string>> rows_;
};

// Whether operators of this name are checked; others are left out without a row.
bool IsCheckedByMindSpore(const OperatorName& name, bool is_mindtorch, const ApiLists& lists) {
  if (is_mindtorch) {
    return name.type == "Torch" || name.type == "Functional" || name.type == "Tensor";
  }
  return name.type == "Mint" || name.type == "MintFunctional" ||
         (name.type == "Tensor" && base::IsOneOf(name.api, lists.mindspore_tensor)) ||
         (name.type == "Functional" && name.api == "flash_attention_score");
}

MindSporeJudgement JudgeMindSpore(std::string name, const std::optional<TensorView>& bench,
                                  const std::optional<TensorView>& tested, const Limits& limits) {
  MindSporeJudgement judgement;
  judgement.cells.fill(std::string(kBlank));
  judgement.cells[0] = std::move(name);
  if (bench) {
    judgement.cells[1] = MindSporeDType(bench->dtype);
    judgement.cells[3] = TupleText(bench->shape);
  }
  if (tested) {
    judgement.cells[2] = MindSporeDType(tested->dtype);
  }
  if (!bench || !tested || bench->shape != tested->shape) {
    judgement.message = fmt::format("{}{}", kNoCosine, kNoMaxAbs);
  } else {
    const MindSporeMetrics metrics = MeasureMindSpore(*bench, *tested);
    judgement.max_abs = metrics.max_abs;
    judgement.cells[4] = base::PythonFloatRepr(metrics.cosine);
    judgement.cells[5] = base::PythonFloatRepr(metrics.max_abs);
    judgement.cells[6] = base::PythonFloatRepr(metrics.max_relative);
    judgement.passes = true;
    if (!(metrics.cosine > limits.mindspore_cosine)) {
      judgement.passes = false;
      judgement.message += "cosine similarity is less than threshold: 0.99 ";
    }
    if (!(metrics.max_abs < limits.mindspore_max_abs)) {
      judgement.passes = false;
      judgement.message += "max absolute difference is greater than threshold: 0.001 ";
    }
  }
  judgement.cells[7] = OutcomeText(judgement.passes ? Outcome::kPass : Outcome::kError);
  judgement.cells[8] = judgement.message;
  return judgement;
}

Result<Check> RunMindSpore(const CheckOptions& options, const Standards& standards,
                           const DumpCalls& dump, const dump::EntryAccess& records) {
  const base::Stopwatch watch;
  Check check;
  check.warnings = dump.warnings;
  check.truncated = dump.truncated;
  check.worst = options.worst;
  check.limits = standards.source();
  CheckOptions own = options;
  // With real data the tested values are there: only PyTorch is needed.
  own.device = dump.tensor_folder.empty() ? "mindspore" : "recorded";
  const bool is_mindtorch = dump.framework == "mindtorch";
  own.vocabulary = is_mindtorch ? Vocabulary::kMindTorch : Vocabulary::kMindSpore;
  std::vector<const DumpCall*> calls;
  for (const DumpCall& call : dump.calls) {
    const std::optional<OperatorName> name = ParseOperatorName(call.name);
    if (name && IsCheckedByMindSpore(*name, is_mindtorch, standards.apis())) {
      calls.push_back(&call);
    }
  }
  std::string python = own.pythons.front();
  WorkerPointer worker = std::make_unique<Worker>(WorkerOptionsOf(own, python, 0, 1));
  if (!calls.empty()) {
    MSP_ASSIGN_OR_RETURN(worker, StartFirst(own, 1, python, check.warnings));
  }
  MSP_ASSIGN_OR_RETURN(
      ResultFiles files,
      options.resumed_file.empty()
          ? ResultFiles::Create(options.output, kPrecisionResultColumns, kMindSporeColumns)
          : ResultFiles::Resume(options.resumed_file));
  MindSporeChecking checking(own, standards, dump, records, *worker, files);
  base::Progress progress("checking", calls.size(), "operators", options.quiet);
  for (const DumpCall* call : calls) {
    progress.Add();
    if (files.finished().contains(call->name)) {
      ++check.finished_before;
      continue;
    }
    CheckedOperator& checked = check.operators.emplace_back();
    MSP_RETURN_IF_ERROR(checking.CheckOne(*call, checked));
    check.forward.Add(checked.forward);
    if (checked.has_backward) {
      check.backward.Add(checked.backward);
    }
  }
  check.framework = worker->greeting().framework;
  check.device = worker->greeting().device;
  check.restarts = worker->starts() > 1 ? worker->starts() - 1 : 0;
  check.files = {files.result_path(), files.details_path()};
  check.seconds = watch.seconds();
  return check;
}

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
      // Random values depend on all that were drawn before.
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
    const OutputJudgeOptions judge = JudgeOptionsOf(options_, made);
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
    if (finished.checked.message.empty()) {
      finished.checked.message = FirstError(finished.details);
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

namespace {

Result<Check> RunOne(const CheckOptions& options) {
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

template <typename Value>
void Append(std::vector<Value>& all, std::vector<Value> more) {
  std::move(more.begin(), more.end(), std::back_inserter(all));
}

// `options` for one of its dumps.
CheckOptions OptionsOf(const CheckOptions& options, const DumpOfRank& one) {
  CheckOptions own = options;
  own.dumps.clear();
  own.dump = one.dump;
  own.output = options.output / one.folder;
  return own;
}

// Names of calls and warnings of one among several dumps say of which they are.
template <typename Named>
void NameAfter(const DumpOfRank& dump, std::vector<Named>& calls,
               std::vector<std::string>& warnings) {
  for (Named& call : calls) {
    call.name = fmt::format("{} {}", dump.name, call.name);
  }
  for (std::string& warning : warnings) {
    warning = fmt::format("{}: {}", dump.name, warning);
  }
}

// Why it failed, without the path that the answer shows before it.
std::string ReasonOf(const Status& failure, const std::filesystem::path& path) {
  const std::string begin = base::Printable(path.string()) + ": ";
  const std::string& message = failure.message();
  return message.starts_with(begin) ? message.substr(begin.size()) : message;
}

// Checks one dump after the other: `run_one` gives the answer about one, `add` joins it to that
// about all. A dump that cannot be checked is named in the answer, and the others go on; an error
// where none could be checked, or where the command line is wrong for all of them.
template <typename Answer, typename RunOne, typename Add>
Result<Answer> RunEach(const CheckOptions& options, const RunOne& run_one, const Add& add) {
  if (options.dumps.empty()) {
    return run_one(options);
  }
  Answer all;
  Status first_failure;
  for (const DumpOfRank& dump : options.dumps) {
    Result<Answer> one = run_one(OptionsOf(options, dump));
    if (one.ok()) {
      ++all.checked_dumps;
      add(dump, *std::move(one), all);
      continue;
    }
    Status failure = one.status();
    if (failure.code() == StatusCode::kUsage) {
      return failure;
    }
    all.failed_dumps.push_back({dump.dump, ReasonOf(failure, dump.dump)});
    if (first_failure.ok()) {
      first_failure = std::move(failure).AddContext(dump.name);
    }
  }
  if (all.checked_dumps == 0) {
    return first_failure;
  }
  return all;
}

void AddDump(const DumpOfRank& dump, Check one, Check& all) {
  NameAfter(dump, one.operators, one.warnings);
  Check::OfDump& counted = all.dumps.emplace_back();
  counted.name = dump.name;
  for (const CheckedOperator& checked : one.operators) {
    counted.operators.Add(checked.verdict());
  }
  Append(all.operators, std::move(one.operators));
  Append(all.warnings, std::move(one.warnings));
  Append(all.files, std::move(one.files));
  all.forward.Add(one.forward);
  all.backward.Add(one.backward);
  all.left_out += one.left_out;
  all.restarts += one.restarts;
  all.seconds += one.seconds;
  all.truncated = all.truncated || one.truncated;
  all.framework = one.framework.empty() ? all.framework : one.framework;
  all.device = one.device.empty() ? all.device : one.device;
  all.limits = one.limits;
  all.worst = one.worst;
}

void AddOverflows(const DumpOfRank& dump, OverflowCheck one, OverflowCheck& all) {
  NameAfter(dump, one.calls, one.warnings);
  Append(all.calls, std::move(one.calls));
  Append(all.warnings, std::move(one.warnings));
  all.truncated = all.truncated || one.truncated;
  all.device = one.device.empty() ? all.device : one.device;
}

}  // namespace

Result<Check> Run(const CheckOptions& options) { return RunEach<Check>(options, RunOne, AddDump); }

namespace {

// Whether a value of a returned structure is inf or NaN; nullopt where there is nothing to look at.
std::optional<bool> Overflows(const OutputValue& value) {
  switch (value.kind) {
    case OutputValue::Kind::kTensor: {
      const DTypeKind kind = GetDTypeInfo(value.tensor.dtype).kind;
      if (kind != DTypeKind::kFloat || value.tensor.element_count() == 0) {
        return false;
      }
      FloatMetricsOptions measured;
      measured.with_standard = false;
      return MeasureFloats(value.tensor, value.tensor, Standards::BuiltIn().limits(), measured)
          .has_equal_non_finite;
    }
    case OutputValue::Kind::kList:
    case OutputValue::Kind::kDict: {
      bool any = false;
      for (const OutputValue& item : value.items) {
        any = any || Overflows(item).value_or(false);
      }
      return any;
    }
    case OutputValue::Kind::kScalar:
      if (value.type == "bool") {
        return std::nullopt;
      }
      return value.text == "inf" || value.text == "-inf" || value.text == "nan";
    default:
      return std::nullopt;
  }
}

Result<OverflowCheck> RunOneOverflowCheck(const CheckOptions& options) {
  const Standards& standards = Standards::BuiltIn();
  MSP_ASSIGN_OR_RETURN(const DumpCalls dump, ReadDumpCalls(options.dump));
  MSP_ASSIGN_OR_RETURN(const dump::EntryAccess records, dump::EntryAccess::Open(options.dump));
  const CallMaker maker(options, standards, dump, records);
  TorchGenerator generator;
  std::string python;
  WorkerPointer worker;
  OverflowCheck check;
  check.warnings = dump.warnings;
  check.truncated = dump.truncated;
  base::Progress progress("checking", dump.calls.size(), "operators", options.quiet);
  for (const DumpCall& call : dump.calls) {
    progress.Add();
    const std::optional<OperatorName> name = ParseOperatorName(call.name);
    OverflowCheck::Call& row = check.calls.emplace_back();
    row.name = call.name;
    row.skipped = true;
    if (const std::optional<std::string> why = maker.WhyNot(call); why) {
      row.message = *why;
      continue;
    }
    if (name->type == "NPU") {
      row.message = "operators of type NPU have no partner on the CPU";
      continue;
    }
    if (worker == nullptr) {
      MSP_ASSIGN_OR_RETURN(worker, StartFirst(options, 1, python, check.warnings));
      check.device = worker->greeting().device;
    }
    MSP_RETURN_IF_ERROR(worker->Start());
    worker->arguments().Clear();
    const Result<MadeCall> made = maker.Make(call, generator, worker->arguments(), true);
    if (!made.ok()) {
      row.message = made.status().message();
      continue;
    }
    const Result<WorkerAnswer> answer = worker->Call(made->frame);
    if (!answer.ok() || answer->failed) {
      row.message = FirstLine(answer.ok() ? answer->message : answer.status().message());
      continue;
    }
    const std::optional<bool> bench = Overflows(answer->bench);
    const std::optional<bool> device = Overflows(answer->device);
    if (!bench || !device) {
      row.message = "there is no output that could overflow";
      continue;
    }
    row.skipped = false;
    row.abnormal = *bench != *device;
    row.message = *bench || *device ? fmt::format("The {} overflow is a{} overflow.", call.name,
                                                  row.abnormal ? "n abnormal" : " normal")
                                    : "";
  }
  return check;
}

}  // namespace

Result<OverflowCheck> RunOverflowCheck(const CheckOptions& options) {
  return RunEach<OverflowCheck>(options, RunOneOverflowCheck, AddOverflows);
}

}  // namespace msprobe::analysis::accuracy
