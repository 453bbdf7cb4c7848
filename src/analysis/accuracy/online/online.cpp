#include "src/analysis/accuracy/online/online.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "msprobe/status.h"

#include "src/analysis/accuracy/check/arguments.h"
#include "src/analysis/accuracy/check/call_maker.h"
#include "src/analysis/accuracy/check/check.h"
#include "src/analysis/accuracy/check/document.h"
#include "src/analysis/accuracy/check/options.h"
#include "src/analysis/accuracy/check/result_files.h"
#include "src/analysis/accuracy/check/tensor_record.h"
#include "src/analysis/accuracy/check/worker.h"
#include "src/analysis/accuracy/common/outcome.h"
#include "src/analysis/accuracy/common/output_judge.h"
#include "src/analysis/accuracy/common/standards.h"
#include "src/analysis/accuracy/precision_compare/precision_compare.h"
#include "src/base/files.h"
#include "src/base/log.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"
#include "src/dump/entry_tree.h"
#include "src/online/frame.h"
#include "src/online/inbox.h"
#include "src/online/receiver.h"
#include "src/report/writers.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::analysis::accuracy {
namespace {

// One call of a training, run again here, against what the training's device computed.

// Rows as CSV, for the files of the call's rank.
struct JudgedCall {
  std::string details;            // accuracy_checking_details: the training against this device,
  std::string result;             // or why a call was not judged
  std::string precision_details;  // api_precision_compare: both devices against the CPU,
  std::string precision_result;   // by the ratio of their errors
  Outcome outcome = Outcome::kSkip;
  std::string message;
  double max_abs = 0;
};

class CallJudge {
 public:
  CallJudge(const CheckOptions& options, const Standards& standards)
      : options_(options), standards_(standards), maker_(options, standards) {}

  // Operators judged by fixed limits (absolute, binary, thousandth) are compared with what the
  // worker's device computes; all others with the CPU, as the worker's device is, and the errors of
  // both with one another. The call may hold anything: what is wrong with it is a row.
  JudgedCall Judge(const online::Call& call, Worker& worker) const;

 private:
  Result<JudgedCall> TryToJudge(const online::Call& call, Worker& worker) const;
  JudgedCall Skipped(const std::string& name, const std::string& why) const;

  const CheckOptions& options_;
  const Standards& standards_;
  const CallMaker maker_;
};

// The four result files of a rank. They grow call by call, so that what was checked survives a
// kill.

class RankFiles {
 public:
  // accuracy_checking_{result,details}_<time>_rank<r>.csv and
  // api_precision_compare_{result,details}_<time>_rank<r>.csv
  static Result<RankFiles> Create(const std::filesystem::path& folder, const std::string& time,
                                  int64_t rank, bool english);

  const std::array<std::filesystem::path, 4>& paths() const { return paths_; }
  // Opens what it writes to: no descriptors are kept, however many ranks there are.
  Status Append(const JudgedCall& judged);

 private:
  RankFiles() = default;

  std::array<std::filesystem::path, 4> paths_;
};

using dump::EntryTree;
using dump::NodeKind;

constexpr size_t kMostReceivedDepth = 10;
constexpr std::array<std::string_view, 4> kRunTypes = {"Functional", "Tensor", "Torch", "NPU"};

using ReceivedTensors = std::map<std::string_view, TensorView>;

ReceivedTensors TensorsOf(const online::Call& call) {
  ReceivedTensors tensors;
  for (const online::CallTensor& tensor : call.tensors) {
    tensors.emplace(tensor.name, tensor::RowMajorView(tensor.dtype, tensor.shape, tensor.bytes));
  }
  return tensors;
}

// The recorded outputs in the form of a worker's answer.
Result<OutputValue> ReceivedValue(const EntryTree& tree, uint32_t place,
                                  const ReceivedTensors& tensors, size_t depth) {
  if (depth > kMostReceivedDepth) {
    return BadFormatError("outputs are nested too deeply");
  }
  const dump::Node& node = tree[place];
  OutputValue value;
  const auto scalar = [&](std::string type, std::string text) {
    value.kind = OutputValue::Kind::kScalar;
    value.type = std::move(type);
    value.text = std::move(text);
    return value;
  };
  switch (node.kind) {
    case NodeKind::kNull:
      value.type = "NoneType";
      return value;
    case NodeKind::kBool:
      return scalar("bool", node.boolean ? "True" : "False");
    case NodeKind::kInt:
      return scalar("int", std::to_string(node.integer));
    case NodeKind::kFloat:
      return scalar("float", base::PythonFloatRepr(node.number));
    case NodeKind::kText:
      return scalar("str", std::string(node.text));
    case NodeKind::kList:
    case NodeKind::kObject:
      break;
  }
  if (IsTensorRecord(tree, place)) {
    const uint32_t name = tree.Find(place, "data_name");
    const auto found = name == EntryTree::kNone ? tensors.end() : tensors.find(tree[name].text);
    if (found == tensors.end()) {
      return NotFoundError("the values of an output were not sent");
    }
    value.kind = OutputValue::Kind::kTensor;
    value.type = "torch.Tensor";
    value.tensor = found->second;
    return value;
  }
  const uint32_t typed = node.kind == NodeKind::kObject ? tree.Find(place, "value") : 0;
  if (node.kind == NodeKind::kObject && typed != EntryTree::kNone &&
      tree.Find(place, "type") != EntryTree::kNone) {
    return ReceivedValue(tree, typed, tensors, depth + 1);
  }
  value.kind = node.kind == NodeKind::kList ? OutputValue::Kind::kList : OutputValue::Kind::kDict;
  value.type = node.kind == NodeKind::kList ? "list" : "dict";
  Status status;
  tree.ForEachChild(place, [&](uint32_t child) {
    if (!status.ok()) {
      return;
    }
    Result<OutputValue> item = ReceivedValue(tree, child, tensors, depth + 1);
    if (!item.ok()) {
      status = std::move(item).status();
      return;
    }
    if (node.kind == NodeKind::kObject) {
      value.keys.emplace_back(tree[child].key);
    }
    value.items.push_back(*std::move(item));
  });
  MSP_RETURN_IF_ERROR(status);
  return value;
}

// A record holds a list also where the operator gave one value back.
Result<OutputValue> ReceivedOutputs(const EntryTree& record, const ReceivedTensors& tensors,
                                    const OutputValue& like) {
  const uint32_t place = record.Find(0, "output");
  if (place == EntryTree::kNone || record[place].kind != NodeKind::kList) {
    return BadFormatError("the record has no list of outputs");
  }
  MSP_ASSIGN_OR_RETURN(OutputValue list, ReceivedValue(record, place, tensors, 0));
  const bool is_one = list.items.size() == 1 && like.kind != OutputValue::Kind::kList;
  if (is_one) {
    return std::move(list.items.front());
  }
  list.type = like.type;  // a tuple or a named one, which the record does not tell
  if (list.items.size() == 1 && list.items.front().kind == OutputValue::Kind::kList) {
    OutputValue inner = std::move(list.items.front());
    inner.type = like.type;
    return inner;
  }
  return list;
}

std::string CsvRows(const std::vector<DetailRow>& rows) {
  std::string text;
  for (const DetailRow& row : rows) {
    text += CsvRow(row.cells);
  }
  return text;
}

std::vector<DetailCells> CellsOf(const std::vector<DetailRow>& rows) {
  std::vector<DetailCells> cells(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    std::copy(rows[i].cells.begin(), rows[i].cells.end(), cells[i].begin());
  }
  return cells;
}

JudgedCall CallJudge::Skipped(const std::string& name, const std::string& why) const {
  JudgedCall judged;
  judged.details =
      CsvRows({BlankDetailRow(name + ".forward.output.0", Outcome::kSkip, why, options_.version)});
  judged.result = CsvRow(std::array{name, std::string("SKIP"), std::string(kBlank), why});
  judged.message = FirstLine(why);
  return judged;
}

JudgedCall CallJudge::Judge(const online::Call& call, Worker& worker) const {
  if (const std::optional<std::string> why = maker_.WhyNot(call.name); why) {
    return Skipped(call.name, *why);
  }
  Result<JudgedCall> judged = TryToJudge(call, worker);
  return judged.ok() ? *std::move(judged) : Skipped(call.name, judged.status().message());
}

Result<JudgedCall> CallJudge::TryToJudge(const online::Call& call, Worker& worker) const {
  MSP_ASSIGN_OR_RETURN(const EntryTree record, dump::ParseEntry(call.record));
  const OperatorName name = *ParseOperatorName(call.name);
  // A peer can only name an operator of the list, or one of the user's own.
  if (!base::IsOneOf(name.type, kRunTypes) && options_.reference_file.empty()) {
    return UnsupportedError(fmt::format("operators of type {} are not run", name.type));
  }
  if (name.type == "Aten") {
    return UnsupportedError("operators of type Aten are not run for a training");
  }
  if (name.api.find("dropout") != std::string_view::npos) {
    return UnsupportedError("which elements a dropout drops is drawn anew by every run");
  }
  MSP_RETURN_IF_ERROR(worker.Start());
  worker.arguments().Clear();
  const ReceivedTensors tensors = TensorsOf(call);
  const TensorSource source = [&tensors](std::string_view wanted) -> Result<TensorView> {
    const auto found = tensors.find(wanted);
    return found == tensors.end()
               ? Result<TensorView>(NotFoundError("the values of an argument were not sent"))
               : Result<TensorView>(found->second);
  };
  MSP_ASSIGN_OR_RETURN(const MadeCall made,
                       maker_.MakeReceived(call.name, record, source, worker.arguments()));
  MSP_ASSIGN_OR_RETURN(const WorkerAnswer answer, worker.Call(made.frame));
  if (answer.failed) {
    return UnsupportedError(answer.message);
  }
  MSP_ASSIGN_OR_RETURN(const OutputValue outputs, ReceivedOutputs(record, tensors, answer.device));
  const OutputJudgeOptions judge = JudgeOptionsOf(options_, made);
  const Standard standard = standards_.Of(name.api, {});
  const bool is_two_way = standard == Standard::kAbsolute || standard == Standard::kBinary ||
                          standard == Standard::kThousandth;
  JudgedCall judged;
  MSP_ASSIGN_OR_RETURN(const JudgedOutputs training,
                       JudgeOutputs(call.name, "forward", is_two_way ? answer.device : answer.bench,
                                    outputs, standards_, judge));
  judged.max_abs = training.max_abs;
  if (is_two_way) {
    judged.outcome = training.outcome;
    judged.details = CsvRows(training.rows);
    judged.result = CsvRow(std::array{
        call.name,
        std::string(OutcomeText(training.outcome, options_.version == StandardVersion::k26)),
        std::string(kBlank)});
    judged.message = FirstError(training.rows);
    return judged;
  }
  MSP_ASSIGN_OR_RETURN(const JudgedOutputs here, JudgeOutputs(call.name, "forward", answer.bench,
                                                              answer.device, standards_, judge));
  PrecisionOptions precision;
  precision.version = options_.version;
  precision.english = options_.english;
  precision.strict = options_.strict;
  precision.worst = 1;
  ComparedOperator compared =
      CompareOperator(CellsOf(training.rows), CellsOf(here.rows), standards_, precision);
  judged.precision_details = std::move(compared.details);
  judged.precision_result = std::move(compared.results);
  judged.outcome = compared.outcome;
  judged.message = std::move(compared.reason);
  return judged;
}

constexpr std::array<std::string_view, 4> kStems = {
    "accuracy_checking_details", "accuracy_checking_result", "api_precision_compare_details",
    "api_precision_compare_result"};

template <size_t kCount>
std::string HeaderOf(const std::array<ColumnName, kCount>& columns, bool english) {
  std::vector<std::string_view> cells;
  for (const ColumnName& column : columns) {
    cells.push_back(column.In(english));
  }
  std::string text(base::kByteOrderMark);
  report::AppendCsvRow(cells, text);
  return text;
}
std::string HeaderOf(std::span<const std::string_view> columns) {
  std::string text(base::kByteOrderMark);
  report::AppendCsvRow(columns, text);
  return text;
}

Result<RankFiles> RankFiles::Create(const std::filesystem::path& folder, const std::string& time,
                                    int64_t rank, bool english) {
  const std::array<std::string, 4> headers = {
      HeaderOf(kDetailColumns, english), HeaderOf(kResultColumns),
      HeaderOf(kPrecisionColumns, english), HeaderOf(kPrecisionResultColumns)};
  RankFiles files;
  for (size_t i = 0; i < kStems.size(); ++i) {
    files.paths_[i] = folder / fmt::format("{}_{}_rank{}.csv", kStems[i], time, rank);
    MSP_RETURN_IF_ERROR(base::WriteFileAtomically(files.paths_[i], headers[i]));
  }
  return files;
}

Status RankFiles::Append(const JudgedCall& judged) {
  const std::array<std::string_view, 4> rows = {judged.details, judged.result,
                                                judged.precision_details, judged.precision_result};
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].empty()) {
      MSP_RETURN_IF_ERROR(AppendToFile(paths_[i], rows[i]));
    }
  }
  return {};
}

constexpr std::chrono::milliseconds kTakeWait{100};
constexpr uint64_t kLeastInboxBytes = uint64_t{256} << 20U;
constexpr uint64_t kMostInboxBytes = uint64_t{16} << 30U;

// A quarter of what the machine can give now: the workers need memory, too.
uint64_t InboxBytes() {
  return std::clamp(AvailableMemory() / 4, kLeastInboxBytes, kMostInboxBytes);
}

// The calls of all ranks through all workers, and their rows in order.
class OnlineChecking {
 public:
  OnlineChecking(const OnlineOptions& options, const Standards& standards, online::Inbox& inbox,
                 std::string time)
      : options_(options),
        inbox_(inbox),
        judge_(options.check, standards),
        time_(std::move(time)) {}

  Status PrepareFiles(int64_t rank) {
    const std::lock_guard lock(mutex_);
    MSP_ASSIGN_OR_RETURN([[maybe_unused]] Rank * found, RankOf(rank));
    return {};
  }

  // Until nothing more comes.
  Status Run(const std::vector<WorkerPointer>& workers) {
    std::vector<std::thread> threads;  // the system ends a worker with the thread that started it
    for (size_t i = 1; i < workers.size(); ++i) {
      try {
        threads.emplace_back([this, &workers, i] { Serve(*workers[i]); });
      } catch (const std::system_error&) {
        break;  // those that run do the work
      }
    }
    Serve(*workers[0]);
    for (std::thread& thread : threads) {
      thread.join();
    }
    // Where the check was stopped: behind a call that was cut off.
    for (auto& [number, rank] : ranks_) {
      for (const auto& [place, judged] : rank.waiting) {
        const Status written = rank.files.Append(judged);
        status_ = status_.ok() ? written : std::move(status_);
      }
    }
    return std::move(status_);
  }

  void Tell(OnlineCheck& check) {
    for (const auto& [rank, news] : inbox_.news()) {
      OnlineRank& told = check.ranks[rank];
      told.dropped = news.dropped;
      told.left_out = news.left_out;
      told.has_ended = news.has_ended;
    }
    for (auto& [rank, found] : ranks_) {
      check.ranks[rank].calls = found.counts;
      check.files.insert(check.files.end(), found.files.paths().begin(), found.files.paths().end());
    }
    check.operators = std::move(operators_);
    check.was_stopped = was_stopped_;
    if (left_out_ > 0) {
      check.warnings.push_back(
          fmt::format("{} more calls did not pass; the files have all of them", left_out_));
    }
  }

 private:
  struct Rank {
    explicit Rank(RankFiles opened) : files(std::move(opened)) {}
    RankFiles files;
    OutcomeCounts counts;
    std::map<uint64_t, JudgedCall> waiting;  // for the rows of earlier calls
    uint64_t written = 0;
  };

  Result<Rank*> RankOf(int64_t rank) {  // mutex_ held
    const auto found = ranks_.find(rank);
    if (found != ranks_.end()) {
      return &found->second;
    }
    MSP_ASSIGN_OR_RETURN(RankFiles files, RankFiles::Create(options_.check.output, time_, rank,
                                                            options_.check.english));
    return &ranks_.emplace(rank, std::move(files)).first->second;
  }

  void Serve(Worker& worker) {
    for (;;) {
      if (options_.is_stopped() && !inbox_.is_closed()) {
        const std::lock_guard lock(mutex_);
        was_stopped_ = true;
        inbox_.Close();
      }
      const std::optional<online::Inbox::Taken> taken =
          was_stopped_ ? std::nullopt : inbox_.Take(kTakeWait);
      if (!taken) {
        if (was_stopped_ || inbox_.is_over()) {
          return;
        }
        continue;
      }
      JudgedCall judged = judge_.Judge(taken->call, worker);
      // Ctrl-C ends the workers, too: a call that was lost with one was not checked.
      const bool was_cut = options_.is_stopped() && judged.outcome == Outcome::kSkip;
      const Status status = was_cut ? OkStatus() : Finish(*taken, std::move(judged));
      inbox_.Done(*taken);
      if (!status.ok()) {
        const std::lock_guard lock(mutex_);
        status_ = status_.ok() ? status : std::move(status_);
        was_stopped_ = true;
        inbox_.Close();
        return;
      }
    }
  }

  Status Finish(const online::Inbox::Taken& taken, JudgedCall judged) {
    const std::lock_guard lock(mutex_);
    MSP_ASSIGN_OR_RETURN(Rank * rank, RankOf(taken.call.rank));
    rank->counts.Add(judged.outcome);
    if (judged.outcome != Outcome::kPass) {
      if (operators_.size() < OnlineCheck::kMostKept) {
        operators_.push_back(
            {fmt::format("step {} rank {} {}", taken.call.step, taken.call.rank, taken.call.name),
             judged.outcome, judged.message, judged.max_abs});
      } else {
        ++left_out_;
      }
    }
    rank->waiting.emplace(taken.number, std::move(judged));
    for (auto next = rank->waiting.begin();
         next != rank->waiting.end() && next->first == rank->written;
         next = rank->waiting.erase(next)) {
      MSP_RETURN_IF_ERROR(rank->files.Append(next->second));
      ++rank->written;
    }
    return {};
  }

  const OnlineOptions& options_;
  online::Inbox& inbox_;
  const CallJudge judge_;
  const std::string time_;
  std::mutex mutex_;  // of what follows
  std::map<int64_t, Rank> ranks_;
  std::vector<OnlineOperator> operators_;
  uint64_t left_out_ = 0;
  Status status_;
  std::atomic<bool> was_stopped_{false};
};

}  // namespace

Result<OnlineCheck> Run(const OnlineOptions& options) {
  const base::Stopwatch watch;
  const CheckOptions& check_options = options.check;
  MSP_RETURN_IF_ERROR(CheckLists(check_options));
  Standards standards = Standards::BuiltIn();
  if (!check_options.standards_file.empty()) {
    MSP_ASSIGN_OR_RETURN(standards, Standards::Load(check_options.standards_file));
  }
  if (check_options.quantised) {
    standards.SetQuantised(*check_options.quantised);
  }
  // Before anybody is let in: a Python that cannot do it, files that cannot be written.
  std::vector<WorkerPointer> workers;
  std::string python;
  OnlineCheck check;
  MSP_ASSIGN_OR_RETURN(WorkerPointer first,
                       StartFirst(check_options, check_options.workers, python, check.warnings));
  workers.push_back(std::move(first));
  for (size_t i = 1; i < check_options.workers; ++i) {
    workers.push_back(
        std::make_unique<Worker>(WorkerOptionsOf(check_options, python, i, check_options.workers)));
  }
  MSP_ASSIGN_OR_RETURN(const base::RunStamp stamp,
                       base::RunStamp::Take(check_options.output, base::TimestampNow()));
  online::InboxOptions inbox_options;
  inbox_options.ranks = options.ranks;
  inbox_options.most_bytes = InboxBytes();
  online::Inbox inbox(inbox_options);
  OnlineChecking checking(options, standards, inbox, stamp.text());
  for (const int64_t rank : options.ranks) {
    MSP_RETURN_IF_ERROR(checking.PrepareFiles(rank));
  }
  check.endpoint = options.endpoint.text();
  {
    MSP_ASSIGN_OR_RETURN(const std::unique_ptr<online::Receiver> receiver,
                         options.endpoint.is_folder()
                             ? online::ReceiveFolder(options.endpoint, inbox)
                             : online::ReceiveConnections(options.endpoint, inbox));
    if (!check_options.quiet) {
      base::LogInfo(fmt::format("waiting for calls at {}; Ctrl-C ends the check with its answer",
                                check.endpoint));
    }
    const Status status = checking.Run(workers);
    inbox.Close();  // before its receiver ends
    MSP_RETURN_IF_ERROR(status);
  }
  check.framework = workers[0]->greeting().framework;
  check.device = workers[0]->greeting().device;
  for (const WorkerPointer& worker : workers) {
    check.restarts += worker->starts() > 1 ? worker->starts() - 1 : 0;
  }
  check.limits =
      fmt::format("{}, {}", check_options.version == StandardVersion::k26 ? "26.x" : "8.1.1",
                  standards.source());
  check.worst = check_options.worst;
  checking.Tell(check);
  check.seconds = watch.seconds();
  return check;
}

namespace {

using base::Plural;
using report::AnswerOutcome;
using report::Cell;
using report::Section;
using report::Tone;

report::Verdict OnlineVerdict(const OnlineCheck& check) {
  const OutcomeCounts calls = check.calls();
  const uint64_t errors = calls.Of(Outcome::kError);
  report::Verdict verdict;
  verdict.unit = "operators";
  verdict.number = static_cast<double>(errors);
  if (calls.judged() == 0) {
    verdict.word = "NOTHING CHECKED";
    verdict.text = calls.total() == 0 ? "NOTHING CHECKED: no call came"
                                      : "NOTHING CHECKED: no call could be run and judged";
    verdict.tone = Tone::kBad;
    verdict.outcome = AnswerOutcome::kNothingCompared;
    return verdict;
  }
  const std::string judged = Plural(calls.judged(), "call");
  if (errors > 0) {
    verdict.Say("INACCURATE",
                fmt::format("{} of {} of the training miss their standard", errors, judged),
                Tone::kBad, AnswerOutcome::kFindings);
  } else {
    verdict.Say("ACCURATE", fmt::format("{} of the training meet their standards", judged),
                Tone::kGood);
  }
  if (calls.Of(Outcome::kSkip) > 0) {
    verdict.text += fmt::format("; {} could not be checked", calls.Of(Outcome::kSkip));
  }
  return verdict;
}

void AddWorst(const OnlineCheck& check, report::Document& document) {
  const std::vector<const OnlineOperator*> worst =
      WorstOf(check.operators, &OnlineOperator::outcome, check.worst);
  if (worst.empty()) {
    return;
  }
  report::Table table("worst", {"Call", "Outcome", "Max error", "Why"});
  for (const OnlineOperator* checked : worst) {
    table.AddRow({table.KeepText(base::Printable(checked->name)),
                  Cell::Text(OutcomeText(checked->outcome)),
                  table.KeepText(fmt::format("{:.3g}", checked->max_abs)),
                  table.KeepText(base::Printable(checked->message))});
  }
  report::DataTable shown{std::move(table)};
  shown.amounts = {2};
  shown.names_rows = true;
  document.Add("Calls that differ most", std::move(shown));
}

}  // namespace

OutcomeCounts OnlineCheck::calls() const {
  OutcomeCounts all;
  for (const auto& [rank, found] : ranks) {
    all.Add(found.calls);
  }
  return all;
}

report::Document MakeDocument(const OnlineCheck& check, std::string_view command) {
  report::Document document;
  document.command = command;
  document.verdict = OnlineVerdict(check);
  const OutcomeCounts calls = check.calls();
  document.levels = report::OutcomesOf(kCheckGateLevels);
  report::SetFound(document.levels, "error", calls.Of(Outcome::kError) > 0);
  report::SetFound(document.levels, "warning", calls.Of(Outcome::kWarning) > 0);
  report::SetFound(document.levels, "skip", calls.Of(Outcome::kSkip) > 0);
  AddWorst(check, document);
  report::List facts{report::ListKind::kFacts, {}};
  for (const auto& [rank, found] : check.ranks) {
    facts.items.push_back({fmt::format("rank {}", rank), CountsText(found.calls)});
  }
  facts.items.push_back({"from", check.endpoint});
  if (!check.framework.empty()) {
    facts.items.push_back({"device", fmt::format("{}, {}", check.device, check.framework)});
  }
  facts.items.push_back({"limits", check.limits});
  document.Add("Totals", std::move(facts));
  for (const OnlineOperator& checked : check.operators) {
    report::TestCase& test = document.cases.emplace_back();
    test.name = checked.name;
    test.message = checked.message;
    MarkFailed(checked.outcome, "not judged", "misses its standard", test);
  }
  document.warnings = check.warnings;
  for (const auto& [rank, found] : check.ranks) {
    if (found.dropped > 0) {
      document.warnings.push_back(
          fmt::format("rank {}: the training dropped {} for lack of room: they were not checked",
                      rank, Plural(found.dropped, "call")));
    }
    if (found.left_out > 0) {
      document.warnings.push_back(fmt::format(
          "rank {}: {} left out, because they could not be read or are too large", rank,
          found.left_out == 1 ? "1 call was" : fmt::format("{} calls were", found.left_out)));
    }
    if (!found.has_ended) {
      document.warnings.push_back(fmt::format(
          "rank {} did not say that it had ended: later calls of it may be missing", rank));
    }
  }
  if (check.was_stopped) {
    document.warnings.emplace_back("the check was stopped before the trainings had ended");
  }
  if (check.restarts > 0) {
    document.warnings.push_back(RestartWarning(check.restarts));
  }
  document.AddFiles(check.files);
  document.action = "checked";
  document.seconds = check.seconds;
  return document;
}

}  // namespace msprobe::analysis::accuracy
