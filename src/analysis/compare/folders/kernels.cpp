#include "src/analysis/compare/folders/kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "msprobe/dtype.h"
#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/analysis/compare/agreement.h"
#include "src/analysis/compare/compare_pair.h"
#include "src/analysis/compare/folders/folders.h"
#include "src/analysis/compare/options.h"
#include "src/analysis/kernel_dump/numbers.h"
#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/dump/layout.h"
#include "src/dump/names.h"
#include "src/dump/stack_file.h"
#include "src/io/kernel_dump/dump_file.h"

namespace msprobe::analysis::compare {
namespace {

// "[1, 3, 1, 4]" and "[3, 4]" are one tensor to a kernel.
std::optional<Shape> WithoutOnes(std::string_view text) {
  std::optional<Shape> shape = ParseShape(text);
  if (shape) {
    std::erase(*shape, 1);
  }
  return shape;
}

bool IsOutputRow(const SideRow& row) { return row.state == dump::RowState::kOutput; }

template <typename T>
void AppendBytes(const T& value, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Equal for rows that stand as near to any row of a call.
std::string TraitsOf(const SideRow& row, const Shape& shape) {
  std::string traits(row.dtype);
  traits += row.is_tensor ? ";t" : ";s";
  traits += IsOutputRow(row) ? 'o' : 'i';
  for (const StatValue& stat : row.stats) {
    traits += static_cast<char>(stat.kind);
    traits += stat.boolean ? '1' : '0';
    AppendBytes(stat.number, traits);
  }
  for (const int64_t size : shape) {
    AppendBytes(size, traits);
  }
  return traits;
}

}  // namespace

CallFinder::CallFinder(const Side& kernels, const Side& calls) : kernels_(kernels), calls_(calls) {
  std::unordered_map<std::string, uint32_t> known;  // groups
  for (uint32_t i = 0; i < kernels.rows.size(); ++i) {
    const SideRow& row = kernels.rows[i];
    std::optional<Shape> shape = WithoutOnes(row.shape);
    if (!shape) {
      continue;
    }
    const auto [group, is_new] =
        known.try_emplace(TraitsOf(row, *shape), static_cast<uint32_t>(groups_.size()));
    if (is_new) {
      std::vector<uint32_t>& alike = groups_of_[{*std::move(shape), IsOutputRow(row)}];
      if (alike.size() == kMostAlike) {
        known.erase(group);
        ++left_out_;
        continue;
      }
      groups_.push_back({{}, ParseDType(row.dtype)});
      alike.push_back(group->second);
    }
    groups_[group->second].rows.push_back(i);
  }
}

std::string CallFinder::LeftOutText() const {
  return fmt::format(
      "{} not looked at to find the call of the kernels: {} others have the shape",
      left_out_ == 1 ? "1 kernel tensor is" : base::Plural(left_out_, "kernel tensor") + " are",
      base::FormatCount(kMostAlike));
}

CallMatch CallFinder::Match(uint32_t entry) const {
  CallMatch match;
  match.entry = entry;
  Taken taken;
  const SideEntry& call = calls_.entries[entry];
  for (uint32_t i = call.first_row; i < call.first_row + call.row_count; ++i) {
    const SideRow& row = calls_.rows[i];
    if (!row.is_tensor || !row.stats[kMax].is_numeric()) {
      continue;
    }
    ++match.tensors;
    double distance = 0;
    const uint32_t kernel = Nearest(row, taken, distance);
    if (kernel == kNoRow) {
      continue;
    }
    match.rows.push_back({kernel, i, distance});
    match.has_output = match.has_output || IsOutputRow(row);
    match.farthest = std::max(match.farthest, distance);
  }
  std::sort(match.rows.begin(), match.rows.end(),
            [](const CallMatch::Row& a, const CallMatch::Row& b) { return a.kernel < b.kernel; });
  return match;
}

uint32_t CallFinder::Nearest(const SideRow& row, Taken& taken, double& nearest) const {
  std::optional<Shape> shape = WithoutOnes(row.shape);
  const bool is_output = IsOutputRow(row);
  const auto place = shape ? groups_of_.find({*std::move(shape), is_output}) : groups_of_.end();
  if (place == groups_of_.end()) {
    return kNoRow;
  }
  const std::optional<DType> dtype = ParseDType(row.dtype);
  bool found_dtype = false;
  uint32_t found = kNoRow;
  uint32_t found_group = 0;
  for (const uint32_t index : place->second) {
    const Alike& group = groups_[index];
    const auto of_group = taken.find(index);
    const size_t used = of_group == taken.end() ? 0 : of_group->second;
    if (used == group.rows.size()) {
      continue;
    }
    const uint32_t kernel = is_output ? group.rows[group.rows.size() - 1 - used] : group.rows[used];
    const Distance distance = StatisticsDistance(kernels_.rows[kernel], row);
    if (!distance.comparable) {
      continue;
    }
    const double far = distance.nonfinite_differs ? HUGE_VAL : distance.relative;
    const bool same_dtype = group.dtype == dtype;
    const bool as_good =
        far == nearest &&
        (same_dtype > found_dtype ||
         (same_dtype == found_dtype && (is_output ? kernel > found : kernel < found)));
    if (found == kNoRow || far < nearest || as_good) {
      found = kernel;
      found_group = index;
      nearest = far;
      found_dtype = same_dtype;
    }
  }
  if (found != kNoRow) {
    ++taken[found_group];
  }
  return found;
}

namespace {

namespace fs = std::filesystem;
namespace kd = io::kernel_dump;

constexpr std::string_view kStepFolder = "step";

// Only names that the runtime gives; other files in a folder are none of ours.
bool IsKernelFile(const kernel_dump::DumpPath& file) {
  return file.parsed && !file.parsed->is_overflow();
}

const kd::DumpedTensor* TensorOf(const kd::KernelDump& dump, size_t slot) {
  if (slot < dump.inputs.size()) {
    return &dump.inputs[slot];
  }
  slot -= dump.inputs.size();
  return slot < dump.outputs.size() ? &dump.outputs[slot] : nullptr;
}

struct KernelFacts {
  std::string op_type;
  std::string op_name;
  std::vector<Result<ArraySummary>> inputs;
  std::vector<Result<ArraySummary>> outputs;
  std::vector<std::string> warnings;
  Status status;
};

std::vector<Result<ArraySummary>> ReadTensors(const std::vector<kd::DumpedTensor>& dumped) {
  std::vector<Result<ArraySummary>> tensors;
  for (const kd::DumpedTensor& tensor : dumped) {
    const Result<tensor::TensorBuffer> buffer = kernel_dump::ReadPlainTensor(tensor);
    if (!buffer.ok()) {
      tensors.emplace_back(buffer.status());
      continue;
    }
    const kernels::TensorStats stats = kernel_dump::StatisticsOf(buffer->view());
    tensors.emplace_back(ArraySummary{buffer->view().dtype,
                                      buffer->view().shape,
                                      {stats.max, stats.min, stats.mean, stats.norm}});
  }
  return tensors;
}

Status ReadKernel(const fs::path& path, KernelFacts& facts) {
  MSP_ASSIGN_OR_RETURN(const base::FileBytes file, base::FileBytes::Open(path));
  MSP_ASSIGN_OR_RETURN(const kd::KernelDump dump, kd::ReadKernelDump(file.bytes()));
  if (!dump.op_name.empty()) {
    facts.op_name = dump.op_name;
  }
  facts.warnings = dump.warnings;
  facts.inputs = ReadTensors(dump.inputs);
  facts.outputs = ReadTensors(dump.outputs);
  return base::CheckMappedFile(file.bytes());
}

std::string WithoutDots(std::string text) {
  std::replace(text.begin(), text.end(), '.', '_');
  return text;
}

// A row per tensor; `state` says which of both sides of the kernel they are.
void AddKernelRows(const std::vector<Result<ArraySummary>>& tensors, dump::RowState state,
                   const std::string& entry_name, Side& side) {
  const auto entry = static_cast<uint32_t>(side.entries.size() - 1);
  for (size_t number = 0; number < tensors.size(); ++number) {
    SideRow row;
    row.name = side.Keep(fmt::format("{}.{}.{}", entry_name, dump::RowStateName(state), number));
    row.entry = entry;
    row.leaf = side.entries.back().row_count++;
    row.state = state;
    row.api_name = row.name.substr(0, entry_name.size() + 1);
    row.data_name = row.name;  // KernelTensors reads it, or says why it cannot be read
    DescribeTensor(tensors[number], side, row);
    side.rows.push_back(row);
  }
}

}  // namespace

bool LeadsToKernelDumps(const fs::path& path) {
  if (dump::FindDump(path).ok()) {
    return false;
  }
  return FindKernelRuns(path).ok();
}

Result<std::vector<KernelRun>> FindKernelRuns(const fs::path& path) {
  uint64_t left_out = 0;
  MSP_ASSIGN_OR_RETURN(std::vector<kernel_dump::DumpPath> files,
                       kernel_dump::FindDumpFiles(path, "", left_out));
  std::map<std::pair<std::optional<int64_t>, std::optional<int64_t>>, KernelRun> runs;
  for (kernel_dump::DumpPath& file : files) {
    if (!IsKernelFile(file)) {
      continue;
    }
    std::optional<int64_t> step;
    std::optional<int64_t> device;
    const fs::path place = fs::absolute(file.path).parent_path();
    for (const fs::path& part : place) {
      const std::string name = part.string();
      if (name.starts_with(kStepFolder)) {
        const std::optional<int64_t> number =
            FolderNumber(std::string_view(name).substr(kStepFolder.size()));
        step = number ? number : step;
      }
    }
    device = FolderNumber(place.filename().string());
    KernelRun& run = runs[{step, device}];
    if (run.files.empty()) {
      run.step = step;
      run.device = device;
      run.path = file.path.parent_path();
    }
    run.files.push_back(std::move(file));
  }
  if (runs.empty()) {
    return NotFoundError(fmt::format("{} holds no kernel dump", path.string()))
        .WithHint("their names are {op type}.{op name}.{task}.{stream}.{time}");
  }
  std::vector<KernelRun> sorted;
  for (auto& [key, run] : runs) {
    std::stable_sort(run.files.begin(), run.files.end(),
                     [](const kernel_dump::DumpPath& a, const kernel_dump::DumpPath& b) {
                       return std::pair(a.parsed->timestamp, a.parsed->task_id) <
                              std::pair(b.parsed->timestamp, b.parsed->task_id);
                     });
    sorted.push_back(std::move(run));
  }
  return sorted;
}

KernelSide LoadKernelSide(const KernelRun& run, base::ThreadPool& pool) {
  std::vector<KernelFacts> kernels(run.files.size());
  pool.ParallelFor(kernels.size(), [&](size_t i, size_t) {
    kernels[i].op_type = run.files[i].parsed->op_type;
    kernels[i].op_name = run.files[i].parsed->op_name;
    kernels[i].status = ReadKernel(run.files[i].path, kernels[i]);
  });
  KernelSide loaded;
  Side& side = loaded.side;
  side = MakeFileSide(run.path);
  side.header.level = "L2";
  std::map<std::string, uint64_t> occurrences;
  for (size_t i = 0; i < kernels.size(); ++i) {
    KernelFacts& kernel = kernels[i];
    if (!kernel.status.ok()) {
      side.warnings.push_back(
          fmt::format("{}: {}", run.files[i].path.string(), kernel.status.message()));
      // A row that says so: a kernel that cannot be read is equal to nothing.
      kernel.inputs.clear();
      kernel.outputs.assign(1, kernel.status);
    }
    for (const std::string& warning : kernel.warnings) {
      side.warnings.push_back(fmt::format("{}: {}", run.files[i].path.string(), warning));
    }
    const std::string label =
        fmt::format("{}.{}", WithoutDots(kernel.op_type), WithoutDots(kernel.op_name));
    const std::string name = fmt::format("{}.{}.forward", label, occurrences[label]++);
    side.entries.push_back({side.Keep(name), static_cast<uint32_t>(side.rows.size()), 0});
    loaded.files.push_back(run.files[i].path);
    AddKernelRows(kernel.inputs, dump::RowState::kInput, name, side);
    AddKernelRows(kernel.outputs, dump::RowState::kOutput, name, side);
  }
  side.header.entry_count = side.entries.size();
  return loaded;
}

Result<std::optional<LoadedTensor>> KernelTensors::Load(bool of_npu, const SideRow& row) const {
  const KernelSide* const side = of_npu ? npu_ : bench_;
  if (side == nullptr) {
    return std::optional<LoadedTensor>();
  }
  const fs::path& path = side->files[row.entry];
  MSP_ASSIGN_OR_RETURN(const base::FileBytes file, base::FileBytes::Open(path));
  MSP_ASSIGN_OR_RETURN(const kd::KernelDump dump, kd::ReadKernelDump(file.bytes()), path.string());
  const kd::DumpedTensor* const dumped = TensorOf(dump, row.leaf);
  if (dumped == nullptr) {
    return MismatchError(fmt::format("{} changed while it was read", path.string()));
  }
  MSP_ASSIGN_OR_RETURN(tensor::TensorBuffer buffer, kernel_dump::ReadPlainTensor(*dumped),
                       path.string());
  MSP_RETURN_IF_ERROR(base::CheckMappedFile(file.bytes()));
  const auto wanted = side->shapes.find({row.entry, row.leaf});
  if (wanted == side->shapes.end()) {
    return std::optional<LoadedTensor>(std::move(buffer));
  }
  TensorView view = buffer.view();
  if (view.element_count() != msprobe::ElementCount(wanted->second)) {
    return MismatchError(fmt::format("{} changed while it was read", path.string()));
  }
  view.shape = wanted->second;
  view.strides = ContiguousStrides(view.shape);
  MSP_ASSIGN_OR_RETURN(tensor::TensorBuffer reshaped,
                       tensor::MakeContiguous(view, kernel_dump::kMostPlainBytes));
  return std::optional<LoadedTensor>(std::move(reshaped));
}

namespace {

// The API call that kernels belong to: which one it is, and which kernel tensor each of its tensors
// is.

constexpr size_t kMostNames = 5;  // in a message

// The call that options name, or the only one whose tensors are all among the kernels'.
Result<CallMatch> ChooseCall(const Options& options, const CallFinder& finder, const Side& calls) {
  std::vector<CallMatch> fitting;
  for (uint32_t entry = 0; entry < calls.entries.size(); ++entry) {
    const std::string_view name = calls.entries[entry].name;
    if (!options.folders.kernel_call.empty()) {
      if (name != options.folders.kernel_call) {
        continue;
      }
      CallMatch match = finder.Match(entry);
      if (match.rows.empty()) {
        return MismatchError(
            fmt::format("no tensor of {} has the shape of a tensor of the kernels", name));
      }
      return match;
    }
    CallMatch match = finder.Match(entry);
    if (match.has_output && match.rows.size() == match.tensors && match.farthest <= kSameTensor) {
      fitting.push_back(std::move(match));
    }
  }
  if (!options.folders.kernel_call.empty()) {
    SideOptions every_call;
    every_call.allow_truncated = options.allow_truncated;
    const Result<Side> all = LoadSide(calls.json_path, every_call);
    std::vector<std::string> names;
    for (size_t entry = 0; all.ok() && entry < all->entries.size(); ++entry) {
      names.emplace_back(all->entries[entry].name);
    }
    return NotFoundError(fmt::format("{} has no call {}", calls.json_path.string(),
                                     base::Printable(options.folders.kernel_call)))
        .WithHint(
            dump::NamesLikeHint(options.folders.kernel_call, names, calls.json_path.string()));
  }
  if (fitting.size() != 1) {
    std::vector<std::string> names;
    for (const CallMatch& match : fitting) {
      names.emplace_back(calls.entries[match.entry].name);
    }
    if (names.size() > kMostNames) {
      names.resize(kMostNames);
      names.emplace_back("...");
    }
    return UsageError(fitting.empty()
                          ? fmt::format("no call of {} has the tensors of the kernels",
                                        calls.json_path.string())
                          : fmt::format("several calls have the tensors of the kernels: {}",
                                        base::Join(names, ", ")))
        .WithHint("name the call: --call Functional.linear.0.forward");
  }
  return std::move(fitting.front());
}

// Keeps the rows of `match`, which are in ascending order, and lets them have the shapes and the
// spelling of dtypes that the rows of the call have.
void KeepRows(const CallMatch& match, const Side& calls, KernelSide& side) {
  Side& kernels = side.side;
  std::vector<SideRow> kept;
  kept.reserve(match.rows.size());
  auto next = match.rows.begin();
  for (SideEntry& entry : kernels.entries) {
    const uint32_t end = entry.first_row + entry.row_count;
    entry.first_row = static_cast<uint32_t>(kept.size());
    for (; next != match.rows.end() && next->kernel < end; ++next) {
      SideRow& row = kept.emplace_back(kernels.rows[next->kernel]);
      const SideRow& of_call = calls.rows[next->call];
      if (row.shape != of_call.shape) {
        side.shapes[{row.entry, row.leaf}] = *ParseShape(of_call.shape);
        row.shape = kernels.Intern(of_call.shape);
      }
      if (ParseDType(row.dtype) == ParseDType(of_call.dtype)) {
        row.dtype = kernels.Intern(of_call.dtype);
      }
    }
    entry.row_count = static_cast<uint32_t>(kept.size()) - entry.first_row;
  }
  kernels.rows = std::move(kept);
}

std::string CallLine(const std::filesystem::path& json, std::string_view call) {
  const std::filesystem::path path = json.parent_path() / dump::kStackFileName;
  if (!base::Exists(path)) {
    return "";
  }
  const Result<dump::StackFile> stacks = dump::StackFile::Read(path);
  const std::vector<std::string>* frames = stacks.ok() ? stacks->Find(call) : nullptr;
  return frames == nullptr ? "" : dump::UserCodeLine(*frames);
}

// Fills compared.bench and source.mapping, and leaves of `kernels` the rows that stand for a
// tensor of the call. What was found is said in compared.call. kUsage when the call has to be
// named, kNotFound when the dump does not have it, kMismatch when no tensor of it fits a kernel.
Status LoadCallOfKernels(const Options& options, const std::filesystem::path& json,
                         KernelSide& kernels, LoadedPair& compared, PairSource& source) {
  SideOptions side_options;
  side_options.allow_truncated = options.allow_truncated;
  if (!options.folders.kernel_call.empty()) {
    side_options.keep_entry = [&](std::string_view name) {
      return name == options.folders.kernel_call;
    };
  }
  MSP_ASSIGN_OR_RETURN(Side calls, LoadSide(json, side_options));
  const CallFinder finder(kernels.side, calls);
  if (finder.left_out() > 0) {
    source.warnings.push_back(finder.LeftOutText());
  }
  MSP_ASSIGN_OR_RETURN(const CallMatch match, ChooseCall(options, finder, calls));
  const std::string call(calls.entries[match.entry].name);
  side_options.keep_entry = [&](std::string_view name) { return name == call; };
  MSP_ASSIGN_OR_RETURN(compared.bench, LoadSide(json, side_options));
  // One entry is left, whose rows have moved to the front.
  const uint32_t first = calls.entries[match.entry].first_row;
  KeepRows(match, calls, kernels);
  RowMapping& mapping = source.mapping.emplace();
  mapping.by_key_only = true;
  for (const CallMatch::Row& row : match.rows) {
    mapping.keys.push_back(compared.bench.rows[row.call - first].name);
  }
  kernels.side.header.task = compared.bench.header.task;
  kernels.side.has_md5 = compared.bench.has_md5;
  const std::string line = CallLine(json, call);
  compared.call = fmt::format("The kernels belong to {}{}; {} of its {} found", call,
                              line.empty() ? "" : fmt::format(" ({})", line), match.rows.size(),
                              base::Plural(match.tensors, "tensor"));
  return {};
}

using Number = std::optional<int64_t>;

std::string KernelPlaceText(const Number& step, const Number& device) {
  return fmt::format("{}{}", step ? fmt::format("step{}/", *step) : "",
                     device ? fmt::format("device {}", *device) : "device");
}

// A bench side of either kind: a step and a device, or a rank.
struct BenchPlace {
  Number step;
  Number device;
  KernelRun run;
  std::filesystem::path json;
};

Result<std::vector<BenchPlace>> FindBench(const Options& options) {
  std::vector<BenchPlace> places;
  const Result<dump::DumpLayout> layout = dump::FindDump(options.bench_path);
  if (!layout.ok()) {
    MSP_ASSIGN_OR_RETURN(std::vector<KernelRun> runs, FindKernelRuns(options.bench_path));
    for (KernelRun& run : runs) {
      const Number step = run.step;
      const Number device = run.device;
      places.push_back({step, device, std::move(run), {}});
    }
    return places;
  }
  for (const dump::RankFolder& rank : layout->ranks) {
    const std::string name =
        layout->is_single_file ? layout->single_file_name : std::string(dump::kDumpFileName);
    if (layout->is_single_file || rank.has_dump) {
      places.push_back({rank.step, rank.rank, {}, rank.folder / name});
    }
  }
  return places;
}

template <typename Place, typename Member>
bool HasOne(const std::vector<Place>& places, Member&& member) {
  std::set<Number> seen;
  for (const Place& place : places) {
    seen.insert(member(place));
  }
  return seen.size() == 1;
}

}  // namespace

Result<KernelPlan> PlanKernels(const Options& options) {
  if (dump::FindDump(options.npu_path).ok()) {
    return UsageError(fmt::format("{} is a kernel dump, {} is none", options.bench_path.string(),
                                  options.npu_path.string()))
        .WithHint("the kernel dump comes first, the dump of the call second");
  }
  MSP_ASSIGN_OR_RETURN(std::vector<KernelRun> runs, FindKernelRuns(options.npu_path));
  MSP_ASSIGN_OR_RETURN(std::vector<BenchPlace> places, FindBench(options));
  const bool any_step = HasOne(runs, [](const KernelRun& run) { return run.step; }) &&
                        HasOne(places, [](const BenchPlace& place) { return place.step; });
  const bool any_device = HasOne(runs, [](const KernelRun& run) { return run.device; }) &&
                          HasOne(places, [](const BenchPlace& place) { return place.device; });
  KernelPlan plan;
  const size_t run_count = runs.size();
  for (KernelRun& run : runs) {
    const auto partner = std::find_if(places.begin(), places.end(), [&](const BenchPlace& place) {
      return (any_step || place.step == run.step) && (any_device || place.device == run.device);
    });
    if (partner == places.end()) {
      plan.npu_only.push_back(KernelPlaceText(run.step, run.device));
      continue;
    }
    KernelRunPair pair;
    pair.input = {run.path, partner->json.empty() ? partner->run.path : partner->json, run.step,
                  run.device};
    if (run_count > 1 && run.device) {
      pair.rank_suffix = fmt::format("_rank{}", *run.device);
    }
    if (!any_step && run.step) {
      pair.result_subfolder = fmt::format("step{}", *run.step);
    }
    pair.npu = std::move(run);
    pair.bench = std::move(partner->run);
    plan.pairs.push_back(std::move(pair));
    places.erase(partner);
  }
  for (const BenchPlace& place : places) {
    plan.bench_only.push_back(KernelPlaceText(place.step, place.device));
  }
  if (plan.pairs.empty()) {
    return NotFoundError(
        fmt::format("no step and device of {} has a partner in {} (test: {}; "
                    "reference: {})",
                    options.npu_path.string(), options.bench_path.string(),
                    base::Join(plan.npu_only, ", "), base::Join(plan.bench_only, ", ")));
  }
  return plan;
}

Result<ComparedPair> CompareKernels(const Options& options, const KernelRunPair& pair,
                                    base::ThreadPool& pool) {
  const base::Stopwatch load_watch;
  LoadedPair loaded;
  PairSource source;
  KernelSide npu = LoadKernelSide(pair.npu, pool);
  std::optional<KernelSide> bench;
  if (pair.bench.files.empty()) {
    MSP_RETURN_IF_ERROR(LoadCallOfKernels(options, pair.input.bench_json, npu, loaded, source));
  } else {
    bench = LoadKernelSide(pair.bench, pool);
    loaded.bench = std::move(bench->side);
  }
  loaded.npu = std::move(npu.side);
  if (bench) {
    source.mapping = MapRowsByName(loaded.npu, loaded.bench);
  }
  source.load_seconds = load_watch.seconds();
  const KernelTensors tensors(&npu, bench ? &*bench : nullptr);
  source.loader = &tensors;
  return CompareLoaded(options, pair.input, std::move(loaded), std::move(source), pool);
}

}  // namespace msprobe::analysis::compare
