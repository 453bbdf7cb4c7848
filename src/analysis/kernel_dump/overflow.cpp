#include "src/analysis/kernel_dump/overflow.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "src/analysis/kernel_dump/array_text.h"
#include "src/analysis/kernel_dump/statistics.h"
#include "src/base/files.h"
#include "src/base/output_rule.h"
#include "src/base/strings.h"
#include "src/io/kernel_dump/data_type.h"
#include "src/io/kernel_dump/dump_file.h"
#include "src/io/kernel_dump/format.h"

namespace msprobe::analysis::kernel_dump {
namespace {

namespace kd = io::kernel_dump;

constexpr uint64_t kUnpackOverflowLimit = uint64_t{1} << 30U;
// A context or thread that a record does not know.
constexpr uint64_t kNotTold = 65535;
constexpr size_t kTitleWidth = 102;

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

void AddTensors(const DumpPath& dump, std::string_view what,
                const std::vector<kd::DumpedTensor>& tensors, Overflow& overflow) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    OverflowTensor tensor;
    tensor.file = fmt::format("{}.{}.{}.npy", dump.name, what, i);
    tensor.format = kd::FormatName(tensors[i].format);
    const Result<kd::PlainTensor> plain = kd::ToPlain(tensors[i], kUnpackOverflowLimit);
    if (plain.ok()) {
      tensor.shape = plain->view.shape;
      tensor.dtype = plain->view.dtype;
      tensor.stats = StatisticsOf(plain->view);
    } else {
      tensor.status = plain.status();
    }
    overflow.tensors.push_back(std::move(tensor));
  }
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
  AddTensors(dump, "input", kernel.inputs, overflow);
  AddTensors(dump, "output", kernel.outputs, overflow);
  return {};
}

Result<Overflow> ReadRecord(const DumpPath& path, const std::vector<DumpPath>& dumps) {
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
  overflow.status = entry.status;
  overflow.has_many_statuses = entry.has_many_statuses;
  if (const DumpPath* kernel = DumpOf(dumps, entry)) {
    MSP_RETURN_IF_ERROR(AddKernel(*kernel, overflow));
  }
  return overflow;
}

std::string StatusText(const Overflow& overflow) {
  if (!overflow.has_many_statuses) {
    return std::to_string(overflow.status.empty() ? 0 : overflow.status.front());
  }
  return fmt::format("[{}]", fmt::join(overflow.status, ", "));
}

}  // namespace

Result<OverflowFindings> FindOverflows(const OverflowOptions& options) {
  uint64_t left_out = 0;
  MSP_ASSIGN_OR_RETURN(const std::vector<DumpPath> dumps,
                       FindDumpFiles(options.dumps, "", left_out));
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
  OverflowFindings findings;
  findings.records = records.size();
  const size_t most = options.most > 0 ? std::min(records.size(), static_cast<size_t>(options.most))
                                       : records.size();
  for (size_t i = 0; i < most; ++i) {
    Result<Overflow> overflow = ReadRecord(*records[i], dumps);
    if (overflow.ok()) {
      findings.overflows.push_back(*std::move(overflow));
    } else {
      findings.unreadable.emplace_back(records[i]->path, std::move(overflow).status());
    }
  }
  if (!options.output.empty()) {
    MSP_ASSIGN_OR_RETURN(const base::RunStamp stamp,
                         base::RunStamp::Take(options.output, base::TimestampNow()));
    findings.summary = options.output / fmt::format("overflow_summary_{}.txt", stamp.text());
    MSP_RETURN_IF_ERROR(base::WriteFileAtomically(findings.summary, OverflowSummary(findings)));
  }
  return findings;
}

std::string OverflowSummary(const OverflowFindings& findings) {
  std::string text;
  for (size_t i = 0; i < findings.overflows.size(); ++i) {
    const Overflow& overflow = findings.overflows[i];
    text += fmt::format("{:=^{}}\n", fmt::format("[{}]", i + 1), kTitleWidth);
    text += fmt::format("[{}] {}\n", overflow.op_type, overflow.op_name);
    text += fmt::format(" [{}][TaskId:{}][StreamId:{}][Status:{}]\n", overflow.unit,
                        overflow.task_id, overflow.stream_id, StatusText(overflow));
    text += fmt::format(" [timestamp:{}]\n", overflow.timestamp);
    for (const OverflowTensor& tensor : overflow.tensors) {
      text += fmt::format(" {}\n", tensor.file);
      text += tensor.status.ok()
                  ? fmt::format(" -[Format: {}] {}\n", tensor.format,
                                ArrayFacts(tensor.shape, tensor.dtype, tensor.stats.max,
                                           tensor.stats.min, tensor.stats.mean))
                  : fmt::format(" -[{}]\n", tensor.status.message());
    }
  }
  return text;
}

}  // namespace msprobe::analysis::kernel_dump
