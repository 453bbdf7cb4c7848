#include "src/analysis/overflow/run.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "src/analysis/kernel_dump/numbers.h"
#include "src/analysis/kernel_dump/code_mapping.h"
#include "src/analysis/kernel_dump/dump_files.h"
#include "src/analysis/overflow/call_lookup.h"
#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/dump/layout.h"
#include "src/io/kernel_dump/format.h"
#include "src/io/kernel_dump/dump_file.h"
#include "src/io/kernel_dump/overflow_record.h"
#include "src/tensor/float_limits.h"

namespace msprobe::analysis::overflow {
namespace {

namespace fs = std::filesystem;
namespace kd = io::kernel_dump;
using kernel_dump::DumpPath;

constexpr uint64_t kUnpackOverflowLimit = uint64_t{1} << 30U;
// A context or thread that a record does not know.
constexpr uint64_t kNotTold = 65535;
constexpr size_t kTitleWidth = 102;
constexpr int kDeepestRecords = 6;
constexpr std::string_view kRecordStart = "Opdebug.Node_OpDebug.";

// The entry of a record that tells what overflowed: the last one with a status; the first
// otherwise.
const kd::OverflowEntry& Telling(const kd::OverflowRecord& record) {
  const auto last = std::find_if(record.entries.rbegin(), record.entries.rend(),
                                 [](const kd::OverflowEntry& entry) { return entry.overflowed(); });
  return last != record.entries.rend() ? *last : record.entries.front();
}

bool Fits(const std::optional<uint64_t>& of_name, uint64_t told) {
  return told == kNotTold || !of_name || *of_name == told;
}

// The dump of the kernel that a record names.
const DumpPath* DumpOf(const std::vector<DumpPath>& dumps, const kd::OverflowEntry& entry) {
  const DumpPath* best = nullptr;
  for (const DumpPath& dump : dumps) {
    if (!dump.parsed || dump.parsed->is_overflow() ||
        dump.parsed->task_id != entry.Value("task_id") ||
        dump.parsed->stream_id.value_or(0) != entry.Value("stream_id") ||
        !Fits(dump.parsed->context_id, entry.Value("context_id", kNotTold)) ||
        !Fits(dump.parsed->thread_id, entry.Value("thread_id", kNotTold))) {
      continue;
    }
    if (best == nullptr || dump.parsed->timestamp < best->parsed->timestamp) {
      best = &dump;
    }
  }
  return best;
}

void AddTensors(const DumpPath& dump, bool are_outputs,
                const std::vector<kd::DumpedTensor>& tensors, Overflow& overflow) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    KernelTensor tensor;
    tensor.is_output = are_outputs;
    tensor.number = i;
    tensor.file = fmt::format("{}.{}.npy", dump.name, tensor.name());
    tensor.format = kd::FormatName(tensors[i].format);
    const Result<kd::PlainTensor> plain = kd::ToPlain(tensors[i], kUnpackOverflowLimit);
    if (plain.ok()) {
      tensor.shape = plain->view.shape;
      tensor.dtype = plain->view.dtype;
      tensor.stats = kernel_dump::StatisticsOf(plain->view);
    } else {
      tensor.status = plain.status();
    }
    overflow.tensors.push_back(std::move(tensor));
  }
}

// The largest number of float16, at which devices that saturate stay.
constexpr double kLargestHalf = tensor::FormatOf(DType::kFloat16).largest;

Origin OriginOf(const std::vector<KernelTensor>& tensors) {
  bool readable = false;
  bool bad_output = false;
  bool at_limit = false;
  for (const KernelTensor& tensor : tensors) {
    if (!tensor.status.ok()) {
      continue;
    }
    readable = true;
    if (tensor.bad_elements() > 0 && !tensor.is_output) {
      return Origin::kPassedOn;
    }
    bad_output = bad_output || tensor.bad_elements() > 0;
    at_limit = at_limit ||
               (tensor.is_output && tensor.dtype == DType::kFloat16 &&
                std::max(std::fabs(tensor.stats.max), std::fabs(tensor.stats.min)) >= kLargestHalf);
  }
  return bad_output ? Origin::kMade
         : at_limit ? Origin::kSaturated
         : readable ? Origin::kInside
                    : Origin::kUnknown;
}

Status AddKernel(const DumpPath& dump, Overflow& overflow) {
  overflow.dump = dump.path;
  overflow.op_type = dump.parsed->op_type;
  overflow.op_name = dump.parsed->op_name;
  MSP_ASSIGN_OR_RETURN(const base::FileBytes file, base::FileBytes::Open(dump.path));
  MSP_ASSIGN_OR_RETURN(const kd::KernelDump kernel, kd::ReadKernelDump(file.bytes()),
                       dump.path.string());
  if (!kernel.op_name.empty()) {
    overflow.op_name = kernel.op_name;
  }
  AddTensors(dump, false, kernel.inputs, overflow);
  AddTensors(dump, true, kernel.outputs, overflow);
  overflow.origin = OriginOf(overflow.tensors);
  return {};
}

// A kernel whose dump cannot be read is a warning: what the record itself says stays.
Result<Overflow> ReadRecord(const DumpPath& path, const std::vector<DumpPath>& dumps,
                            const DumpPath** kernel, std::vector<std::string>& warnings) {
  MSP_ASSIGN_OR_RETURN(const base::FileBytes file, base::FileBytes::Open(path.path));
  MSP_ASSIGN_OR_RETURN(const kd::KernelDump dump, kd::ReadKernelDump(file.bytes()));
  if (dump.outputs.empty()) {
    return BadFormatError("an overflow file without a record");
  }
  MSP_RETURN_IF_ERROR(Status(dump.outputs.front().status));
  MSP_ASSIGN_OR_RETURN(const kd::OverflowRecord record,
                       kd::ReadOverflowRecord(dump.outputs.front().data));
  const kd::OverflowEntry& entry = Telling(record);
  Overflow overflow;
  overflow.record = path.path;
  overflow.timestamp = path.parsed->timestamp;
  overflow.task_id = entry.Value("task_id");
  overflow.stream_id = entry.Value("stream_id");
  overflow.unit = entry.unit;
  if (std::any_of(entry.fields.begin(), entry.fields.end(),
                  [](const auto& field) { return field.name == "core_id"; })) {
    overflow.core_id = entry.Value("core_id");
  }
  overflow.status = entry.status;
  overflow.has_many_statuses = entry.has_many_statuses;
  *kernel = DumpOf(dumps, entry);
  if (*kernel != nullptr) {
    if (const Status status = AddKernel(**kernel, overflow); !status.ok()) {
      warnings.push_back(status.message());
    }
  }
  return overflow;
}

std::string StatusText(const Overflow& overflow) {
  if (!overflow.has_many_statuses) {
    return std::to_string(overflow.status.empty() ? 0 : overflow.status.front());
  }
  return fmt::format("[{}]", fmt::join(overflow.status, ", "));
}

// The step and the device of a record, of the folders that it lies in: step3/<time>/0.
std::optional<int64_t> StepOf(const fs::path& file) {
  std::optional<int64_t> step;
  for (const fs::path& part : fs::absolute(file).parent_path()) {
    const dump::NumberedName name = dump::ParseStepName(part.string());
    step = name.valid && name.number ? name.number : step;
  }
  return step;
}
std::optional<int64_t> DeviceOf(const fs::path& file) {
  return base::ParseInt(fs::absolute(file).parent_path().filename().string());
}

// The step folder that records lie in has the ranks of the dump, too; else nothing.
fs::path CallsBeside(const fs::path& records) {
  std::error_code error;
  fs::path folder = fs::absolute(records, error).lexically_normal();
  for (int i = 0; i <= kDeepestRecords && folder.has_relative_path(); ++i) {
    if (base::IsFolder(folder) && dump::FindDump(folder).ok()) {
      return folder;
    }
    if (dump::ParseStepName(folder.filename().string()).valid) {
      break;
    }
    folder = folder.parent_path();
  }
  return {};
}

// Calls and lines of the graph, where there are any.
class Lookups {
 public:
  static Result<Lookups> Open(const Options& options, const std::vector<const DumpPath*>& records,
                              Findings& findings) {
    Lookups lookups;
    if (!options.ir.empty()) {
      MSP_ASSIGN_OR_RETURN(kernel_dump::IrNodes nodes, kernel_dump::ReadIr(options.ir));
      lookups.nodes_ = std::make_unique<kernel_dump::IrNodes>(std::move(nodes));
      lookups.scopes_.emplace(*lookups.nodes_);
    }
    findings.calls = options.calls.empty() ? CallsBeside(options.dumps) : options.calls;
    if (findings.calls.empty()) {
      return lookups;
    }
    // Of the step of the first record; records of other steps have no calls.
    lookups.step_ = StepOf(records.front()->path);
    Result<CallLookup> calls = CallLookup::Open(findings.calls, lookups.step_);
    if (calls.ok()) {
      lookups.calls_ = *std::move(calls);
    } else if (!options.calls.empty()) {
      return std::move(calls).status();
    } else {
      findings.warnings.push_back(calls.status().message());
      findings.calls.clear();
    }
    return lookups;
  }

  void Add(const DumpPath& kernel, Overflow& overflow, std::vector<std::string>& warnings) {
    if (calls_ && StepOf(kernel.path) == step_) {
      overflow.call = calls_->Find(kernel, DeviceOf(kernel.path), warnings);
    }
    if (scopes_) {
      const kernel_dump::ScopeFinder::Found found =
          scopes_->Find(base::ReplaceAll(overflow.op_name, "/", "_"));
      overflow.graph_scope = found.scope_name;
      overflow.graph_code = found.code_stack;
    }
  }

 private:
  std::optional<CallLookup> calls_;
  std::optional<int64_t> step_;
  std::unique_ptr<kernel_dump::IrNodes> nodes_;
  std::optional<kernel_dump::ScopeFinder> scopes_;
};

bool HoldsRecords(const fs::path& folder, int depth) {
  const Result<std::vector<std::string>> names = base::ListFolder(folder);
  if (!names.ok()) {
    return false;
  }
  for (const std::string& name : *names) {
    if (name.starts_with(kRecordStart)) {
      return true;
    }
  }
  for (const std::string& name : *names) {
    if (depth > 0 && !dump::ParseRankName(name).valid && base::IsFolder(folder / name) &&
        HoldsRecords(folder / name, depth - 1)) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string KernelTensor::name() const {
  return fmt::format("{}.{}", is_output ? "output" : "input", number);
}

uint64_t KernelTensor::bad_elements() const {
  return stats.nan_count + stats.positive_inf_count + stats.negative_inf_count;
}

bool Overflow::overflowed() const {
  return std::any_of(status.begin(), status.end(), [](uint64_t bits) { return bits != 0; });
}

bool HoldsRecords(const fs::path& folder) { return HoldsRecords(folder, kDeepestRecords); }

Result<Findings> Run(const Options& options) {
  uint64_t left_out = 0;
  MSP_ASSIGN_OR_RETURN(const std::vector<DumpPath> dumps,
                       kernel_dump::FindDumpFiles(options.dumps, "", left_out));
  std::vector<const DumpPath*> records;
  for (const DumpPath& dump : dumps) {
    if (dump.parsed && dump.parsed->is_overflow()) {
      records.push_back(&dump);
    }
  }
  if (records.empty()) {
    return NotFoundError(fmt::format("{}: no overflow record", options.dumps.string()))
        .WithHint("they are called Opdebug.Node_OpDebug.{task_id}.{stream_id}.{timestamp}");
  }
  std::stable_sort(records.begin(), records.end(), [](const DumpPath* a, const DumpPath* b) {
    return a->parsed->timestamp < b->parsed->timestamp;
  });
  Findings findings;
  findings.records = records.size();
  const size_t most = options.most > 0 ? std::min(records.size(), static_cast<size_t>(options.most))
                                       : records.size();
  MSP_ASSIGN_OR_RETURN(Lookups lookups, Lookups::Open(options, records, findings));
  for (size_t i = 0; i < most; ++i) {
    const DumpPath* kernel = nullptr;
    Result<Overflow> overflow = ReadRecord(*records[i], dumps, &kernel, findings.warnings);
    if (overflow.ok()) {
      if (kernel != nullptr) {
        lookups.Add(*kernel, *overflow, findings.warnings);
      }
      findings.overflows.push_back(*std::move(overflow));
    } else {
      findings.unreadable.emplace_back(records[i]->path, std::move(overflow).status());
    }
  }
  if (!options.output.empty()) {
    MSP_ASSIGN_OR_RETURN(const base::RunStamp stamp,
                         base::RunStamp::Take(options.output, base::TimestampNow()));
    findings.summary = options.output / fmt::format("overflow_summary_{}.txt", stamp.text());
    MSP_RETURN_IF_ERROR(base::WriteFileAtomically(findings.summary, SummaryText(findings)));
  }
  return findings;
}

std::string SummaryText(const Findings& findings) {
  std::string text;
  for (size_t i = 0; i < findings.overflows.size(); ++i) {
    const Overflow& overflow = findings.overflows[i];
    text += fmt::format("{:=^{}}\n", fmt::format("[{}]", i + 1), kTitleWidth);
    text += fmt::format("[{}] {}\n", overflow.op_type, overflow.op_name);
    text += fmt::format(" [{}][TaskId:{}][StreamId:{}][Status:{}]\n", overflow.unit,
                        overflow.task_id, overflow.stream_id, StatusText(overflow));
    text += fmt::format(" [timestamp:{}]\n", overflow.timestamp);
    for (const KernelTensor& tensor : overflow.tensors) {
      text += fmt::format(" {}\n", tensor.file);
      text +=
          tensor.status.ok()
              ? fmt::format(" -[Format: {}] {}\n", tensor.format,
                            kernel_dump::ArrayFacts(tensor.shape, tensor.dtype, tensor.stats.max,
                                                    tensor.stats.min, tensor.stats.mean))
              : fmt::format(" -[{}]\n", tensor.status.message());
    }
  }
  return text;
}

}  // namespace msprobe::analysis::overflow
