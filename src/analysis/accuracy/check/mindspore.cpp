#include "src/analysis/accuracy/check/mindspore.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/accuracy/check/api_lists.h"
#include "src/analysis/accuracy/check/arguments.h"
#include "src/analysis/accuracy/check/error_data.h"
#include "src/analysis/accuracy/check/result_files.h"
#include "src/analysis/accuracy/check/start_worker.h"
#include "src/analysis/accuracy/common/output_judge.h"
#include "src/base/number_text.h"
#include "src/base/progress.h"
#include "src/base/stopwatch.h"
#include "src/base/strings.h"
#include "src/kernels/convert.h"
#include "src/tensor/element_blocks.h"

namespace msprobe::analysis::accuracy {
namespace {

using json::ValueKind;
using json::ValueTree;

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
  std::vector<std::byte> scratch[2];
  tensor::BlockReader bench_reader(bench, scratch[0]);
  tensor::BlockReader tested_reader(tested, scratch[1]);
  std::vector<double> b(tensor::kCopyBlockElements);
  std::vector<double> t(tensor::kCopyBlockElements);
  double dot = 0;
  double bench_squares = 0;
  double tested_squares = 0;
  const auto take = [](double value, double& largest) {
    largest = std::isnan(value) || value > largest ? value : largest;
  };
  const auto count = static_cast<size_t>(bench.element_count());
  for (size_t first = 0; first < count; first += tensor::kCopyBlockElements) {
    const size_t size = std::min(count - first, tensor::kCopyBlockElements);
    kernels::WidenToDouble(bench.dtype, bench_reader.Read(first, size), std::span(b).first(size));
    kernels::WidenToDouble(tested.dtype, tested_reader.Read(first, size), std::span(t).first(size));
    for (size_t i = 0; i < size; ++i) {
      dot += b[i] * t[i];
      bench_squares += b[i] * b[i];
      tested_squares += t[i] * t[i];
      const double difference = std::fabs(b[i] - t[i]);
      take(difference, metrics.max_abs);
      take(difference / (b[i] == 0 ? kTiny : std::fabs(b[i])), metrics.max_relative);
    }
  }
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
    MSP_ASSIGN_OR_RETURN(const ValueTree record,
                         records_.Read(call.forward.offset, call.forward.bytes));
    if (record[0].kind != ValueKind::kObject) {
      return BadFormatError("the record of the call is no object");
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
      MSP_ASSIGN_OR_RETURN(const ValueTree backward,
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
      std::optional<TensorView>& view = views.emplace_back();
      if (leaf.is_tensor) {
        view.emplace();
        view->dtype = leaf.dtype;
        view->shape = leaf.shape;
        view->strides = ContiguousStrides(leaf.shape);
        view->data = worker_.arguments().at(leaf.offset);
        view->extent_bytes = view->size_bytes();
      }
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
      // What cannot be saved costs nothing else.
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

}  // namespace

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

}  // namespace msprobe::analysis::accuracy
