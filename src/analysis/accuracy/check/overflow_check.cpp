#include <optional>
#include <string>

#include <fmt/format.h>

#include "src/analysis/accuracy/check/call_maker.h"
#include "src/analysis/accuracy/check/dump_calls.h"
#include "src/analysis/accuracy/check/run.h"
#include "src/analysis/accuracy/check/start_worker.h"
#include "src/analysis/accuracy/common/float_metrics.h"
#include "src/base/progress.h"

namespace msprobe::analysis::accuracy {
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

}  // namespace

Result<OverflowCheck> RunOverflowCheck(const CheckOptions& options) {
  const Standards& standards = Standards::BuiltIn();
  MSP_ASSIGN_OR_RETURN(const DumpCalls dump, ReadDumpCalls(options.dump));
  MSP_ASSIGN_OR_RETURN(const dump::EntryAccess records, dump::EntryAccess::Open(options.dump));
  const CallMaker maker(options, standards, dump, records);
  TorchGenerator generator;
  std::string python;
  WorkerPointer worker;
  OverflowCheck check;
  check.warnings = dump.warnings;
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

}  // namespace msprobe::analysis::accuracy
