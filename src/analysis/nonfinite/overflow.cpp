// Each overflow record names a kernel by task and stream; the dump of that kernel, where there is
// one, tells whether its inputs were finite. The call of the framework is found by tensors: shapes
// and statistics of the kernel's against those of the calls of its rank.
#include "src/analysis/nonfinite/overflow.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "msprobe/status.h"

#include "src/analysis/compare/folders/kernels.h"
#include "src/analysis/compare/side.h"
#include "src/analysis/kernel_dump/code_mapping.h"
#include "src/analysis/kernel_dump/dump_files.h"
#include "src/analysis/kernel_dump/numbers.h"
#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/dump/layout.h"
#include "src/dump/stack_file.h"
#include "src/io/kernel_dump/dump_file.h"
#include "src/io/kernel_dump/format.h"
#include "src/io/kernel_dump/overflow_record.h"
#include "src/report/document.h"
#include "src/tensor/float_limits.h"

namespace msprobe::analysis::nonfinite {
namespace {

// The call of the framework that a kernel belongs to, by its tensors.

// The dumps of one step, a rank each.
class CallLookup {
 public:
  // `dump`: a dump.json, a rank, a step or a whole dump, of which `step` is looked at. Ranks are
  // read when they are needed. kNotFound when there is none.
  static Result<CallLookup> Open(const std::filesystem::path& dump, std::optional<int64_t> step);

  // The earliest of the calls that share most tensors with the kernel: shapes and statistics, and
  // among them an output, or all inputs.
  //
  // `device`: of the kernel; its calls are those of the rank with that number, or of the only rank.
  // Where there is neither, all of a few ranks are looked at, of many ranks none. What cannot be
  // read is reported in `warnings`, once.
  std::optional<Call> Find(const kernel_dump::DumpPath& kernel, std::optional<int64_t> device,
                           std::vector<std::string>& warnings);

 private:
  struct RankCalls {
    std::optional<int64_t> rank;
    std::filesystem::path json;
    bool is_read = false;
    std::optional<compare::Side> calls;  // none: not read yet, or not readable
    std::optional<dump::StackFile> stack;
  };
  static void Read(RankCalls& rank, std::vector<std::string>& warnings);
  std::vector<RankCalls*> RanksOf(std::optional<int64_t> device,
                                  std::vector<std::string>& warnings);

  std::vector<RankCalls> ranks_;
  bool told_many_ranks_ = false;
};

namespace fs = std::filesystem;

// How many of a kernel's tensors are tensors of the call, and whether that identifies it.
struct Likeness {
  size_t found = 0;
  bool tells = false;
};

Likeness LikenessOf(const compare::CallMatch& match, const compare::Side& kernel) {
  Likeness likeness;
  size_t inputs = 0;
  size_t found_inputs = 0;
  for (const compare::SideRow& row : kernel.rows) {
    inputs += compare::IsInput(row) ? 1 : 0;
  }
  for (const compare::CallMatch::Row& row : match.rows) {
    if (row.distance > compare::kSameTensor) {
      continue;
    }
    ++likeness.found;
    const bool is_input = compare::IsInput(kernel.rows[row.kernel]);
    found_inputs += is_input ? 1 : 0;
    likeness.tells = likeness.tells || !is_input;
  }
  likeness.tells = likeness.tells || (inputs > 0 && found_inputs == inputs);
  return likeness;
}

Result<CallLookup> CallLookup::Open(const fs::path& path, std::optional<int64_t> step) {
  MSP_ASSIGN_OR_RETURN(const dump::DumpLayout layout, dump::FindDump(path));
  CallLookup lookup;
  for (const dump::RankFolder& rank : layout.ranks) {
    const bool other_step = step && rank.step && *rank.step != *step;
    if (!other_step && (layout.is_single_file || rank.has_dump)) {
      RankCalls& calls = lookup.ranks_.emplace_back();
      calls.rank = rank.rank;
      calls.json = rank.folder / (layout.is_single_file ? layout.single_file_name
                                                        : std::string(dump::kDumpFileName));
    }
  }
  if (lookup.ranks_.empty()) {
    return NotFoundError(fmt::format("{} has no calls{}", path.string(),
                                     step ? fmt::format(" of step {}", *step) : ""));
  }
  return lookup;
}

void CallLookup::Read(RankCalls& rank, std::vector<std::string>& warnings) {
  rank.is_read = true;
  compare::SideOptions options;
  options.allow_truncated = true;
  Result<compare::Side> calls = compare::LoadSide(rank.json, options);
  if (!calls.ok()) {
    warnings.push_back(calls.status().message());
    return;
  }
  rank.calls = *std::move(calls);
  const fs::path path = rank.json.parent_path() / dump::kStackFileName;
  if (!base::Exists(path)) {
    return;
  }
  Result<dump::StackFile> stack = dump::StackFile::Read(path);
  if (stack.ok()) {
    rank.stack = *std::move(stack);
  } else {
    warnings.push_back(stack.status().message() + "; lines of code are left out");
  }
}

std::vector<CallLookup::RankCalls*> CallLookup::RanksOf(std::optional<int64_t> device,
                                                        std::vector<std::string>& warnings) {
  constexpr size_t kFewRanks = 8;
  std::vector<RankCalls*> ranks;
  for (RankCalls& rank : ranks_) {
    if (rank.rank && rank.rank == device) {
      ranks = {&rank};
      break;
    }
    ranks.push_back(&rank);
  }
  if (ranks.size() > kFewRanks) {
    if (!told_many_ranks_) {
      warnings.push_back(
          fmt::format("which of {} ranks ran the kernels is not known: no rank has the number of "
                      "their device; --calls names one",
                      ranks.size()));
    }
    told_many_ranks_ = true;
    return {};
  }
  for (RankCalls* rank : ranks) {
    if (!rank->is_read) {
      Read(*rank, warnings);
    }
  }
  std::erase_if(ranks, [](const RankCalls* rank) { return !rank->calls; });
  return ranks;
}

std::optional<Call> CallLookup::Find(const kernel_dump::DumpPath& kernel,
                                     std::optional<int64_t> device,
                                     std::vector<std::string>& warnings) {
  const std::vector<RankCalls*> ranks = RanksOf(device, warnings);
  base::ThreadPool pool(1);  // for one file
  compare::KernelRun run;
  run.path = kernel.path.parent_path();
  run.files = {kernel};
  const compare::KernelSide side = compare::LoadKernelSide(run, pool);
  if (side.side.rows.empty()) {
    return std::nullopt;
  }
  std::optional<Call> best;
  for (const RankCalls* rank : ranks) {
    const compare::CallFinder finder(side.side, *rank->calls);
    if (finder.left_out() > 0 && rank == ranks.front()) {
      warnings.push_back(finder.LeftOutText());
    }
    for (uint32_t entry = 0; entry < rank->calls->entries.size(); ++entry) {
      const Likeness likeness = LikenessOf(finder.Match(entry), side.side);
      if (!likeness.tells || (best && likeness.found < best->found)) {
        continue;
      }
      const std::string name(rank->calls->entries[entry].name);
      if (best && likeness.found == best->found) {
        best->others.push_back(name);
        continue;
      }
      best = Call{name, rank->json, {}, {}, likeness.found, side.side.rows.size(), {}};
      if (const auto* frames = rank->stack ? rank->stack->Find(name) : nullptr) {
        best->stack = *frames;
        best->code_line = dump::UserCodeLine(*frames);
      }
    }
  }
  return best;
}

namespace kd = io::kernel_dump;
using kernel_dump::DumpPath;

constexpr uint64_t kUnpackOverflowLimit = uint64_t{1} << 30U;
// A context or thread that a record does not know.
constexpr uint64_t kNotTold = 65535;
constexpr size_t kTitleWidth = 102;
constexpr int kDeepestRecords = 6;
constexpr std::string_view kRecordStart = "Opdebug.Node_OpDebug.";

// The entry of a record with the overflow: the last one with a status; the first
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

OverflowOrigin OriginOf(const std::vector<KernelTensor>& tensors) {
  bool readable = false;
  bool bad_output = false;
  bool at_limit = false;
  for (const KernelTensor& tensor : tensors) {
    if (!tensor.status.ok()) {
      continue;
    }
    readable = true;
    if (tensor.bad_elements() > 0 && !tensor.is_output) {
      return OverflowOrigin::kPassedOn;
    }
    bad_output = bad_output || tensor.bad_elements() > 0;
    at_limit = at_limit ||
               (tensor.is_output && tensor.dtype == DType::kFloat16 &&
                std::max(std::fabs(tensor.stats.max), std::fabs(tensor.stats.min)) >= kLargestHalf);
  }
  return bad_output ? OverflowOrigin::kMade
         : at_limit ? OverflowOrigin::kSaturated
         : readable ? OverflowOrigin::kInside
                    : OverflowOrigin::kUnknown;
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
  static Result<Lookups> Open(const OverflowOptions& options,
                              const std::vector<const DumpPath*>& records,
                              OverflowFindings& findings) {
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
    // Calls are of the step of the first record; records of other steps have none.
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

Result<OverflowFindings> FindOverflows(const OverflowOptions& options) {
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
  OverflowFindings findings;
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

std::string SummaryText(const OverflowFindings& findings) {
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

namespace {

using base::FormatCount;
using base::Plural;
using base::Printable;
using report::AnswerOutcome;
using report::Item;
using report::List;
using report::ListKind;
using report::Section;
using report::Tone;

constexpr size_t kShownTensors = 12;
constexpr size_t kMostOthers = 3;  // calls that fit as well

std::string KernelName(const Overflow& overflow) {
  return overflow.op_name.empty()
             ? overflow.op_type
             : fmt::format("{} ({})", overflow.op_type, Printable(overflow.op_name));
}

std::string TaskText(const Overflow& overflow) {
  return fmt::format("stream {}, task {}", overflow.stream_id, overflow.task_id);
}

std::string BadText(const KernelTensor& tensor) {
  std::vector<std::string> parts;
  if (tensor.stats.nan_count > 0) {
    parts.push_back(fmt::format("{} NaN", FormatCount(tensor.stats.nan_count)));
  }
  if (tensor.stats.positive_inf_count > 0) {
    parts.push_back(fmt::format("{} +inf", FormatCount(tensor.stats.positive_inf_count)));
  }
  if (tensor.stats.negative_inf_count > 0) {
    parts.push_back(fmt::format("{} -inf", FormatCount(tensor.stats.negative_inf_count)));
  }
  return base::Join(parts, ", ");
}

// The first input or output that is not finite.
const KernelTensor* FirstBad(const Overflow& overflow, bool output) {
  const auto bad = std::find_if(
      overflow.tensors.begin(), overflow.tensors.end(), [&](const KernelTensor& tensor) {
        return tensor.status.ok() && tensor.is_output == output && tensor.bad_elements() > 0;
      });
  return bad == overflow.tensors.end() ? nullptr : &*bad;
}

std::string OriginText(const Overflow& overflow) {
  switch (overflow.origin) {
    case OverflowOrigin::kMade: {
      const KernelTensor& output = *FirstBad(overflow, true);
      return fmt::format("here: its inputs are finite, {} holds {} among {}", output.name(),
                         BadText(output), Plural(output.stats.element_count, "element"));
    }
    case OverflowOrigin::kPassedOn: {
      const KernelTensor& input = *FirstBad(overflow, false);
      return fmt::format("before: {} holds {} already", input.name(), BadText(input));
    }
    case OverflowOrigin::kSaturated:
      return "here: its inputs are finite, and an output holds 65504, the largest float16";
    case OverflowOrigin::kInside:
      return "inside: all its inputs and outputs are finite";
    case OverflowOrigin::kUnknown:
      break;
  }
  return overflow.dump.empty() ? "not known: the kernel was not dumped"
                               : "not known: the dump of the kernel cannot be read";
}

std::string TimeText(uint64_t microseconds) {
  constexpr uint64_t kSecond = 1000000;
  constexpr uint64_t kYear10000 = 253402300800;
  const uint64_t seconds = microseconds / kSecond;
  std::tm time{};
  const auto since_1970 = static_cast<std::time_t>(seconds);
  if (seconds >= kYear10000 || ::gmtime_r(&since_1970, &time) == nullptr) {
    return std::to_string(microseconds);
  }
  return fmt::format("{}-{:02}-{:02} {:02}:{:02}:{:02}.{:06} UTC", time.tm_year + 1900,
                     time.tm_mon + 1, time.tm_mday, time.tm_hour, time.tm_min, time.tm_sec,
                     microseconds % kSecond);
}

std::string StatusBits(const Overflow& overflow) {
  std::vector<std::string> bits;
  for (const uint64_t status : overflow.status) {
    bits.push_back(fmt::format("0x{:x}", status));
  }
  return base::Join(bits, ", ");
}

std::string UnitText(const Overflow& overflow) {
  return fmt::format("{}{}, status {}", overflow.unit,
                     overflow.core_id ? fmt::format(" core {}", *overflow.core_id) : "",
                     StatusBits(overflow));
}

std::string TensorText(const KernelTensor& tensor) {
  if (!tensor.status.ok()) {
    return Printable(tensor.status.message());
  }
  const std::string range =
      tensor.stats.element_count == 0
          ? "empty"
          : fmt::format("max {}  min {}", kernel_dump::NumpyText(tensor.dtype, tensor.stats.max),
                        kernel_dump::NumpyText(tensor.dtype, tensor.stats.min));
  return fmt::format("{} {} {}  {}{}", DTypeName(tensor.dtype), tensor.format,
                     ShapeText(tensor.shape), range,
                     tensor.bad_elements() > 0 ? fmt::format("  ({})", BadText(tensor)) : "");
}

void AddCall(const Overflow& overflow, List& facts) {
  if (overflow.call) {
    const Call& call = *overflow.call;
    std::string text = fmt::format("{}: {} of the kernel's {} are its", Printable(call.name),
                                   call.found, Plural(call.tensors, "tensor"));
    if (!call.others.empty()) {
      std::vector<std::string> others = call.others;
      const bool more = others.size() > kMostOthers;
      others.resize(std::min(others.size(), kMostOthers));
      text +=
          fmt::format("; so are they of {}{}", Printable(base::Join(others, ", ")),
                      more ? fmt::format(" and {} more", call.others.size() - kMostOthers) : "");
    }
    facts.items.push_back({"call", std::move(text)});
    if (!call.code_line.empty()) {
      facts.items.push_back({"code", Printable(call.code_line)});
      facts.items.back().source = report::SourceLineOf(call.code_line);
    }
  }
  if (!overflow.graph_scope.empty()) {
    facts.items.push_back({"scope", Printable(base::ReplaceAll(overflow.graph_scope, "\n", ", "))});
  }
  if (!overflow.graph_code.empty()) {
    Item code{"graph code", {}};
    for (const std::string_view line : base::Split(overflow.graph_code, '\n')) {
      (code.text.empty() ? code.text : code.details.emplace_back().text) = Printable(line);
    }
    facts.items.push_back(std::move(code));
  }
}

Section SectionOf(size_t number, const Overflow& overflow) {
  const bool known = !overflow.op_type.empty();
  Section section{fmt::format("{}. {}", number, known ? KernelName(overflow) : TaskText(overflow)),
                  {}};
  List facts{ListKind::kFacts, {}};
  facts.items.push_back({"made", OriginText(overflow),
                         overflow.origin == OverflowOrigin::kMade ? Tone::kBad : Tone::kPlain});
  AddCall(overflow, facts);
  facts.items.push_back({"ran as", TaskText(overflow)});
  facts.items.push_back({"unit", UnitText(overflow)});
  facts.items.push_back({"noted", TimeText(overflow.timestamp)});
  facts.items.push_back({"record", Printable(overflow.record.string())});
  if (!overflow.dump.empty()) {
    facts.items.push_back({"kernel", Printable(overflow.dump.string())});
  }
  section.blocks.emplace_back(std::move(facts));
  List tensors{ListKind::kAligned, {}, {kShownTensors}};
  for (const KernelTensor& tensor : overflow.tensors) {
    tensors.items.push_back(
        {tensor.name(), TensorText(tensor), tensor.bad_elements() > 0 ? Tone::kBad : Tone::kPlain});
  }
  section.blocks.emplace_back(std::move(tensors));
  if (overflow.call) {
    List stack{ListKind::kSentences, {}, {0}};
    for (const std::string& frame : overflow.call->stack) {
      stack.items.push_back({"", Printable(frame)});
    }
    section.blocks.emplace_back(std::move(stack));
  }
  return section;
}

// The one to look at first: what made bad values itself.
const Overflow* Leading(const OverflowFindings& findings) {
  const auto made = std::find_if(
      findings.overflows.begin(), findings.overflows.end(), [](const Overflow& overflow) {
        return overflow.overflowed() && overflow.origin == OverflowOrigin::kMade;
      });
  if (made != findings.overflows.end()) {
    return &*made;
  }
  const auto first = std::find_if(findings.overflows.begin(), findings.overflows.end(),
                                  [](const Overflow& overflow) { return overflow.overflowed(); });
  return first == findings.overflows.end() ? nullptr : &*first;
}

// A case per record; it fails where the operator overflowed.
std::vector<report::TestCase> CasesOf(const OverflowFindings& findings) {
  std::vector<report::TestCase> cases;
  for (const Overflow& overflow : findings.overflows) {
    report::TestCase& test = cases.emplace_back();
    test.name = Printable(overflow.record.filename().string());
    if (overflow.overflowed()) {
      test.Fail("overflow", overflow.unit, Sentence(overflow));
      test.details = OriginText(overflow);
      if (overflow.call && !overflow.call->code_line.empty()) {
        test.details += fmt::format("\ncode {}", Printable(overflow.call->code_line));
      }
    }
  }
  for (const auto& [path, status] : findings.unreadable) {
    report::TestCase& test = cases.emplace_back();
    test.name = Printable(path.filename().string());
    test.outcome = report::CaseOutcome::kError;
    test.message = Printable(status.message());
  }
  return cases;
}

report::Verdict MakeVerdict(const OverflowFindings& findings) {
  report::Verdict verdict;
  const auto overflowed =
      std::count_if(findings.overflows.begin(), findings.overflows.end(),
                    [](const Overflow& overflow) { return overflow.overflowed(); });
  verdict.number = static_cast<double>(overflowed);
  verdict.unit = "records";
  const std::string seen = fmt::format("{} of {}", FormatCount(findings.overflows.size()),
                                       Plural(findings.records, "record"));
  if (const Overflow* leading = Leading(findings)) {
    verdict.Say("OVERFLOW", Sentence(*leading), Tone::kBad, AnswerOutcome::kFindings);
  } else if (findings.overflows.empty()) {
    verdict.Say("UNREADABLE",
                fmt::format("none of {} can be read", Plural(findings.unreadable.size(), "record")),
                Tone::kBad);
  } else {
    verdict.Say("NO OVERFLOW", fmt::format("{} read, none has a status", seen), Tone::kGood);
  }
  if (!findings.unreadable.empty()) {
    verdict.outcome = AnswerOutcome::kIncomplete;
  }
  return verdict;
}

report::Advice NextStep(const OverflowFindings& findings) {
  const Overflow* leading = Leading(findings);
  if (leading == nullptr) {
    return {};
  }
  if (leading->dump.empty()) {
    return report::Advice("overflow.no_dump");
  }
  if (leading->origin == OverflowOrigin::kPassedOn) {
    return report::Advice("overflow.passed_on");
  }
  return report::Advice(findings.calls.empty() && leading->graph_code.empty() ? "overflow.no_calls"
                                                                              : "overflow.range");
}

}  // namespace

std::string Sentence(const Overflow& overflow) {
  std::string text = overflow.op_type.empty()
                         ? fmt::format("a kernel that was not dumped, {}", TaskText(overflow))
                         : fmt::format("{}, {}", KernelName(overflow), TaskText(overflow));
  if (overflow.call) {
    text += fmt::format(", in {}{}", Printable(overflow.call->name),
                        overflow.call->code_line.empty()
                            ? ""
                            : fmt::format(" ({})", Printable(overflow.call->code_line)));
  }
  return text;
}

report::Document MakeDocument(const OverflowFindings& findings) {
  report::Document document;
  document.command = "parse overflow";
  document.verdict = MakeVerdict(findings);
  document.levels = report::OutcomesOf(kOverflowGateLevels);
  report::SetFound(document.levels, "overflow", Leading(findings) != nullptr);
  for (size_t i = 0; i < findings.overflows.size(); ++i) {
    document.sections.push_back(SectionOf(i + 1, findings.overflows[i]));
  }
  if (findings.records > findings.overflows.size() + findings.unreadable.size()) {
    const uint64_t more = findings.records - findings.overflows.size() - findings.unreadable.size();
    document.Add("Also",
                 report::Text{fmt::format("{} later; -n 0 looks at all", Plural(more, "record"))});
  }
  document.cases = CasesOf(findings);
  document.Advise(NextStep(findings));
  if (!findings.summary.empty()) {
    document.files.push_back({findings.summary});
  }
  document.warnings = findings.warnings;
  for (const auto& [path, status] : findings.unreadable) {
    document.warnings.push_back(fmt::format("{}: {}", path.string(), status.message()));
  }
  return document;
}

}  // namespace msprobe::analysis::nonfinite
