#include "src/analysis/compare/folders/folders.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "msprobe/tensor_file.h"

#include "src/analysis/compare/folders/atb.h"
#include "src/analysis/compare/folders/graph_folders.h"
#include "src/analysis/compare/folders/kernels.h"
#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/result_table.h"
#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/dump/layout.h"
#include "src/kernels/stats.h"
#include "src/tensor/element_blocks.h"
#include "src/tensor/float_bits.h"
#include "src/tensor/float_limits.h"

namespace msprobe::analysis::compare {
namespace {

// What could not be looked at may be anything: that error is reported, and nothing else is guessed.
bool IsUnreadable(const Result<dump::DumpLayout>& found) {
  return !found.ok() && found.status().code() == StatusCode::kIo;
}

}  // namespace

FolderKind FolderKindOf(const Options& options) {
  if (options.v26 && options.v26->torchair) {
    return FolderKind::kTorchair;
  }
  if (options.folders.rank_ids) {
    return FolderKind::kGraph;
  }
  if (options.folders.common) {
    return FolderKind::kCommon;
  }
  if (options.v26) {
    return options.v26->atb ? FolderKind::kAtb : FolderKind::kCalls;
  }
  const Result<dump::DumpLayout> npu = dump::FindDump(options.npu_path);
  const Result<dump::DumpLayout> bench = dump::FindDump(options.bench_path);
  const bool calls_here = npu.ok();
  if ((npu.ok() && bench.ok()) || IsUnreadable(npu) || IsUnreadable(bench)) {
    return FolderKind::kCalls;
  }
  if (LeadsToKernelDumps(options.npu_path) || LeadsToKernelDumps(options.bench_path)) {
    return FolderKind::kKernels;
  }
  if (calls_here) {
    return FolderKind::kCalls;
  }
  if (IsAtbRound(options.npu_path) && IsAtbRound(options.bench_path)) {
    return FolderKind::kAtb;
  }
  if (HoldsGraphKernels(options.npu_path) && HoldsGraphKernels(options.bench_path)) {
    return FolderKind::kGraph;
  }
  return HoldsTensorFiles(options.npu_path) && HoldsTensorFiles(options.bench_path)
             ? FolderKind::kTensors
             : FolderKind::kCalls;
}

void FolderCounts::Add(const Distance& distance, double noise, std::string_view name) {
  if (!distance.comparable) {
    return;
  }
  ++matched;
  identical += distance.identical ? 1 : 0;
  if (distance.identical || (!distance.nonfinite_differs && distance.relative <= noise)) {
    ++agreeing;
  } else if (differing++ == 0) {
    first_differing = distance.nonfinite_differs
                          ? fmt::format("{}: NaN or infinity on one side only", name)
                          : fmt::format("{}: apart by {:.1e} of its size", name, distance.relative);
  }
}

double FolderNoise(DType npu, DType bench) {
  constexpr double kUnits = 16;
  const auto epsilon = [](DType dtype) {
    return std::max(2 * tensor::FormatOf(dtype).unit, 2 * tensor::FormatOf(DType::kFloat32).unit);
  };
  return kUnits * std::max(epsilon(npu), epsilon(bench));
}

Distance FolderDistance(const std::array<double, kStatCount>& npu,
                        const std::array<double, kStatCount>& bench) {
  Distance distance;
  for (size_t i = 0; i < kStatCount; ++i) {
    const bool same_nan = std::isnan(npu[i]) && std::isnan(bench[i]);
    if (same_nan) {
      continue;
    }
    distance.comparable = true;
    if (npu[i] == bench[i]) {
      continue;
    }
    if (!std::isfinite(npu[i]) || !std::isfinite(bench[i])) {
      distance.nonfinite_differs = true;
      continue;
    }
    const double difference = std::fabs(npu[i] - bench[i]);
    const double scale = std::max(std::fabs(npu[i]), std::fabs(bench[i]));
    distance.relative = std::max(distance.relative, difference / scale);
    distance.absolute = std::max(distance.absolute, difference);
  }
  distance.identical = distance.comparable && distance.absolute == 0 && !distance.nonfinite_differs;
  return distance;
}

namespace {

kernels::TensorStats StatsOf(const TensorView& view) {
  std::vector<std::byte> scratch;
  kernels::StatsPartial total;
  tensor::ForEachBlock(view, tensor::kSumBlockElements, scratch,
                       [&](std::span<const std::byte> block, size_t) {
                         kernels::MergeStats(total, kernels::StatsOfBlock(view.dtype, block));
                       });
  return kernels::FinishStats(total);
}

}  // namespace

ArraySummary SummarizeArray(const TensorView& view) {
  ArraySummary summary;
  summary.dtype = view.dtype;
  summary.shape = view.shape;
  if (view.element_count() == 0) {
    summary.stats.fill(std::numeric_limits<double>::quiet_NaN());
    return summary;
  }
  const kernels::TensorStats stats = StatsOf(view);
  summary.stats = {stats.max, stats.min, stats.mean, stats.norm};
  switch (view.dtype) {
    case DType::kFloat16:
      // NumPy sums float16 in float32 but hands the sum of squares back as float16 before it takes
      // the root.
      summary.stats[kMean] = tensor::RoundToDType(view.dtype, stats.mean);
      summary.stats[kNorm] = tensor::RoundToDType(
          view.dtype, std::sqrt(tensor::RoundToDType(view.dtype, stats.norm * stats.norm)));
      break;
    case DType::kFloat32:
      summary.stats[kMean] = tensor::RoundToDType(view.dtype, stats.mean);
      summary.stats[kNorm] = tensor::RoundToDType(view.dtype, stats.norm);
      break;
    default:
      break;
  }
  return summary;
}

namespace {

struct OpenedArray {
  std::optional<TensorFile> file;
  const TensorView* view = nullptr;
  std::string problem;
};

OpenedArray OpenArray(const std::filesystem::path& path, std::vector<std::byte>& scratch) {
  OpenedArray opened;
  TensorFile::Options options;
  options.scratch = &scratch;
  auto file = TensorFile::Open(path, options);
  if (!file.ok()) {
    opened.problem = file.status().message();
    return opened;
  }
  opened.file.emplace(*std::move(file));
  const auto tensor = opened.file->Single();
  if (!tensor.ok()) {
    opened.problem = path.string() + ": " + tensor.status().message();
  } else if (!(*tensor)->status.ok()) {
    opened.problem = path.string() + ": " + (*tensor)->status.message();
  } else {
    opened.view = &(*tensor)->view;
  }
  return opened;
}

// The shortest decimal that reads back as the same float16.
double ShortestFloat16(double value) {
  const uint16_t bits = tensor::FloatToFloat16(static_cast<float>(value));
  for (int digits = 1; digits <= 5; ++digits) {
    std::string text;
    base::AppendGeneral(value, digits, text);
    const std::optional<double> parsed = base::ParseDouble(text);
    if (parsed && tensor::FloatToFloat16(static_cast<float>(*parsed)) == bits) {
      return *parsed;
    }
  }
  return value;
}

double ShortestFloat32(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), static_cast<float>(value));
  return base::ParseDouble({text.data(), static_cast<size_t>(end.ptr - text.data())})
      .value_or(value);
}

report::Cell ArrayStatCell(const ArraySummary& summary, Stat stat, bool shortest) {
  double value = summary.stats[stat];
  if (std::isnan(value)) {
    return {};
  }
  if (std::isinf(value)) {
    return report::Cell::Text(value > 0 ? "inf" : "-inf");
  }
  if (summary.dtype == DType::kBool && (stat == kMax || stat == kMin)) {
    return report::Cell::Text(value != 0 ? "True" : "False");
  }
  if (shortest && summary.dtype == DType::kFloat16) {
    value = ShortestFloat16(value);
  } else if (shortest && summary.dtype == DType::kFloat32) {
    value = ShortestFloat32(value);
  }
  return report::Cell::Number(value);
}

}  // namespace

ArrayPair CompareArrays(const std::filesystem::path& npu, const std::filesystem::path& bench,
                        ArrayScratch& scratch) {
  ArrayPair pair;
  OpenedArray npu_array;
  OpenedArray bench_array;
  std::string problem;
  if (npu.empty()) {
    problem = "No NPU file matches this bench file. ";
  } else {
    npu_array = OpenArray(npu, scratch.npu);
  }
  if (bench.empty()) {
    problem = "No bench file matches this NPU file. ";
  } else {
    bench_array = OpenArray(bench, scratch.bench);
  }
  for (const OpenedArray* array : {&npu_array, &bench_array}) {
    if (!array->problem.empty()) {
      problem += array->problem + ". ";
      pair.unreadable = true;
    }
  }
  if (npu_array.view != nullptr) {
    pair.npu = SummarizeArray(*npu_array.view);
  }
  if (bench_array.view != nullptr) {
    pair.bench = SummarizeArray(*bench_array.view);
  }
  pair.result = pair.npu && pair.bench ? ComputeRealMetrics(*npu_array.view, *bench_array.view)
                                       : UniformRealMetrics("unsupported", std::move(problem));
  return pair;
}

std::optional<double> NoiseOrCount(const ArrayPair& pair, bool has_npu, bool has_bench,
                                   FolderCounts& counts) {
  counts.unreadable += pair.unreadable ? 1 : 0;
  if (!has_npu || !has_bench) {
    ++(has_npu ? counts.npu_only : counts.bench_only);
    return std::nullopt;
  }
  if (!pair.npu || !pair.bench) {
    return std::nullopt;
  }
  if (pair.npu->shape != pair.bench->shape || pair.npu->dtype != pair.bench->dtype) {
    ++counts.shape_mismatch;
    return std::nullopt;
  }
  return FolderNoise(pair.npu->dtype, pair.bench->dtype);
}

std::string NumpyShapeText(const Shape& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += i > 0 ? ", " : "";
    text += std::to_string(shape[i]);
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

report::Cell ArrayStatCell(const ArraySummary& summary, Stat stat) {
  return ArrayStatCell(summary, stat, false);
}

report::Cell ShortArrayStatCell(const ArraySummary& summary, Stat stat) {
  return ArrayStatCell(summary, stat, true);
}

Result<std::vector<Folder>> WalkFolders(const std::filesystem::path& root, int max_depth) {
  struct Pending {
    std::filesystem::path path;
    int depth;
  };
  std::vector<Folder> folders;
  std::vector<Pending> pending = {{root, 0}};
  while (!pending.empty()) {
    const Pending current = std::move(pending.back());
    pending.pop_back();
    MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(current.path));
    Folder folder;
    folder.path = current.path;
    std::vector<Pending> below;
    for (const std::string& name : names) {
      std::error_code error;
      const auto type = std::filesystem::symlink_status(current.path / name, error).type();
      if (type == std::filesystem::file_type::none) {
        base::NoteUnseen(
            IoError("cannot look at " + (current.path / name).string() + ": " + error.message()));
      }
      if (type == std::filesystem::file_type::directory) {
        folder.has_subfolders = true;
        if (current.depth < max_depth) {
          below.push_back({current.path / name, current.depth + 1});
        }
      } else if (type == std::filesystem::file_type::regular) {
        folder.files.push_back(name);
      }
    }
    std::move(below.rbegin(), below.rend(), std::back_inserter(pending));
    folders.push_back(std::move(folder));
  }
  return folders;
}

namespace {

using report::Cell;
namespace fs = std::filesystem;

constexpr int kDeepestFolder = 64;

using Groups = std::map<std::string, std::vector<fs::path>>;

// "out" of "out_float32_3.npy": the name without its last two parts. nullopt for a name of one
// part.
std::optional<std::string> GroupOf(std::string_view stem) {
  const size_t last = stem.rfind('_');
  if (last == std::string_view::npos) {
    return std::nullopt;
  }
  const size_t before = last == 0 ? std::string_view::npos : stem.rfind('_', last - 1);
  return std::string(before == std::string_view::npos ? "" : stem.substr(0, before));
}

// Files of one group in the order they were saved: by the number at the end of their names.
bool SavedBefore(const fs::path& a, const fs::path& b) {
  const auto order = [](const std::string& stem) {
    const std::string_view number = std::string_view(stem).substr(stem.rfind('_') + 1);
    const std::optional<int64_t> value = base::ParseInt(number);
    return std::tuple(!value.has_value(), value.value_or(0), stem);
  };
  const auto key_a = std::tuple(a.parent_path(), order(a.stem().string()));
  const auto key_b = std::tuple(b.parent_path(), order(b.stem().string()));
  return key_a < key_b;
}

bool HoldsArrays(const Folder& folder) {
  return std::any_of(folder.files.begin(), folder.files.end(),
                     [](const std::string& file) { return file.ends_with(kArraySuffix); });
}

// All .npy files of a folder and of those below it.
Result<Groups> GroupFiles(const fs::path& folder, std::vector<std::string>& warnings) {
  MSP_ASSIGN_OR_RETURN(const std::vector<Folder> folders, WalkFolders(folder, kDeepestFolder));
  Groups groups;
  for (const Folder& current : folders) {
    for (const std::string& file : current.files) {
      if (!file.ends_with(kArraySuffix)) {
        continue;
      }
      const fs::path path = current.path / file;
      if (const std::optional<std::string> group = GroupOf(path.stem().string())) {
        groups[*group].push_back(path);
      } else {
        warnings.push_back(path.string() + ": left out, its name has no dtype and number part");
      }
    }
  }
  for (auto& [name, files] : groups) {
    std::sort(files.begin(), files.end(), SavedBefore);
  }
  return groups;
}

struct Job {
  size_t table = 0;  // index into FolderComparison::tables
  std::string name;  // "out_0"
  fs::path npu;
  fs::path bench;  // empty: nothing goes with the NPU file
  ArrayPair result;
};

std::vector<std::string> FolderColumns() {
  std::vector<std::string> columns = {"Name", "NPU Dtype", "Bench Dtype", "NPU Tensor Shape",
                                      "Bench Tensor Shape"};
  const std::vector<std::string> all = ResultColumns(CompareMode::kRealData, false);
  columns.insert(columns.end(), all.begin() + 6, all.end());
  return columns;
}

void AppendRow(const Job& job, report::Table& table) {
  const ArrayPair& pair = job.result;
  std::vector<Cell> cells = {table.KeepText(job.name)};
  for (const auto* side : {&pair.npu, &pair.bench}) {
    cells.push_back(Cell::Text(*side ? DTypeName((*side)->dtype) : kNotApplicable));
  }
  for (const auto* side : {&pair.npu, &pair.bench}) {
    cells.push_back(*side ? table.KeepText(NumpyShapeText((*side)->shape))
                          : Cell::Text(kNotApplicable));
  }
  for (size_t i = 0; i < MetricColumns(CompareMode::kRealData).size(); ++i) {
    cells.push_back(MetricCell(pair.result.metrics[i], table));
  }
  for (const auto* side : {&pair.npu, &pair.bench}) {
    for (const Stat stat : {kMax, kMin, kMean, kNorm}) {
      cells.push_back(*side ? ShortArrayStatCell(**side, stat) : Cell::Text(kNotApplicable));
    }
  }
  cells.push_back(Cell::Text(VerdictText(RealVerdict(pair.result.metrics))));
  cells.push_back(table.KeepText(base::Trim(pair.result.message)));
  std::string names = "[";
  base::AppendPythonTextRepr(job.npu.string(), names);
  names += ", ";
  base::AppendPythonTextRepr(job.bench.empty() ? kNotApplicable : job.bench.string(), names);
  cells.push_back(table.KeepText(names + "]"));
  table.AddRow(cells);
}

// Rows of the NPU side; what only the bench side has is counted.
void AddJobs(const Options& options, const Groups& npu, const Groups& bench,
             const std::string& folder, FolderComparison& comparison, std::vector<Job>& jobs) {
  size_t partners = 0;
  size_t bench_files = 0;
  for (const auto& [group, files] : bench) {
    bench_files += files.size();
  }
  std::map<std::string, std::string> bench_names(options.folders.common_map.begin(),
                                                 options.folders.common_map.end());
  for (const auto& [group, files] : npu) {
    const auto mapped = bench_names.find(group);
    const std::string& bench_group = mapped == bench_names.end() ? group : mapped->second;
    const auto partner = bench.find(bench_group);
    const size_t partner_count = partner == bench.end() ? 0 : partner->second.size();
    if (partner_count != files.size()) {
      comparison.warnings.push_back(
          fmt::format("{}: group {} has {} files on the NPU side and {} on the bench side", folder,
                      group, files.size(), partner_count));
    }
    for (size_t i = 0; i < files.size(); ++i) {
      Job job;
      job.table = comparison.tables.size() - 1;
      job.name = fmt::format("{}_{}", group, i);
      job.npu = files[i];
      job.bench = i < partner_count ? partner->second[i] : fs::path();
      partners += job.bench.empty() ? 0 : 1;
      jobs.push_back(std::move(job));
    }
  }
  comparison.tables.back().counts.bench_only = bench_files - std::min(partners, bench_files);
}

}  // namespace

Result<FolderComparison> CompareCommonFolders(const Options& options, base::ThreadPool& pool) {
  MSP_ASSIGN_OR_RETURN(const std::vector<Folder> folders,
                       WalkFolders(options.npu_path, kDeepestFolder));
  FolderComparison comparison;
  std::vector<Job> jobs;
  for (const Folder& folder : folders) {
    if (!HoldsArrays(folder)) {
      continue;
    }
    const fs::path relative = folder.path.lexically_relative(options.npu_path);
    const fs::path bench_folder =
        relative == "." ? options.bench_path : options.bench_path / relative;
    if (!base::IsFolder(bench_folder)) {
      comparison.warnings.push_back(folder.path.string() + ": the bench side has no such folder");
      continue;
    }
    MSP_ASSIGN_OR_RETURN(const Groups npu, GroupFiles(folder.path, comparison.warnings));
    MSP_ASSIGN_OR_RETURN(const Groups bench, GroupFiles(bench_folder, comparison.warnings));
    FolderTable result;
    result.folder = relative == "." ? fs::path() : relative;
    result.name = "result";
    result.is_csv = true;
    result.table = report::Table("result", FolderColumns());
    comparison.tables.push_back(std::move(result));
    AddJobs(options, npu, bench, folder.path.string(), comparison, jobs);
  }
  if (comparison.tables.empty()) {
    return MismatchError(options.npu_path.string() + " and " + options.bench_path.string() +
                         ": no folder with .npy files is in both");
  }
  std::vector<ArrayScratch> scratch(pool.thread_count());
  pool.ParallelFor(jobs.size(), [&](size_t i, size_t worker) {
    jobs[i].result = CompareArrays(jobs[i].npu, jobs[i].bench, scratch[worker]);
  });
  for (const Job& job : jobs) {
    FolderTable& table = comparison.tables[job.table];
    AppendRow(job, table.table);
    if (const auto noise = NoiseOrCount(job.result, true, !job.bench.empty(), table.counts)) {
      table.counts.Add(job.result.result.distance, *noise, job.name);
    }
  }
  return comparison;
}

RowMapping MapRowsByName(Side& npu, const Side& bench) {
  constexpr std::string_view kNoShape = "None";
  std::unordered_map<std::string_view, const SideRow*> partners;
  for (const SideRow& row : bench.rows) {
    partners.try_emplace(row.name, &row);
  }
  RowMapping mapping;
  mapping.by_key_only = true;
  for (SideRow& row : npu.rows) {
    const auto partner = partners.find(row.name);
    const bool fits = partner == partners.end() || partner->second->shape == row.shape ||
                      partner->second->shape == kNoShape || row.shape == kNoShape;
    if (!fits) {
      row.problem = npu.Keep(
          fmt::format("The row of this name has the shape {} there. ", partner->second->shape));
    }
    // No row has an empty name.
    mapping.keys.push_back(fits ? row.name : std::string_view());
  }
  return mapping;
}

namespace {

constexpr std::string_view kTensorSuffix = ".pt";
constexpr int kDeepestTensors = 8;

struct TensorName {
  std::string_view call;
  dump::RowState state = dump::RowState::kOutput;
};

// Where the call ends and the tensor begins. A name without a direction is a call of its own.
TensorName ParseTensorName(std::string_view stem) {
  constexpr std::array<std::pair<std::string_view, dump::RowState>, 3> kDirections = {
      {{".input_kwargs", dump::RowState::kInput},
       {".input", dump::RowState::kInput},
       {".output", dump::RowState::kOutput}}};
  for (const auto& [direction, state] : kDirections) {
    const size_t at = stem.rfind(direction);
    const size_t end = at == std::string_view::npos ? at : at + direction.size();
    if (at != std::string_view::npos && at > 0 && (end == stem.size() || stem[end] == '.')) {
      return {stem.substr(0, at), state};
    }
  }
  return {stem, dump::RowState::kOutput};
}

// "x_12": a tensor of a custom call that counts its files.
bool IsNumbered(std::string_view stem) {
  const size_t at = stem.rfind('_');
  return at != std::string_view::npos && at + 1 < stem.size() &&
         stem.find_first_not_of("0123456789", at + 1) == std::string_view::npos;
}

bool IsTensorFile(std::string_view name) {
  if (!name.ends_with(kTensorSuffix)) {
    return false;
  }
  const std::string_view stem = name.substr(0, name.size() - kTensorSuffix.size());
  return ParseTensorName(stem).call.size() < stem.size() || IsNumbered(stem);
}

std::vector<std::string> TensorFilesOf(const Folder& folder) {
  std::vector<std::string> names;
  std::copy_if(folder.files.begin(), folder.files.end(), std::back_inserter(names),
               [](const std::string& name) { return IsTensorFile(name); });
  // Inputs before outputs, "x.2" before "x.10".
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    const TensorName first = ParseTensorName(a);
    const TensorName second = ParseTensorName(b);
    if (first.call != second.call) {
      return base::NaturalLess(first.call, second.call);
    }
    return first.state != second.state ? first.state < second.state : base::NaturalLess(a, b);
  });
  return names;
}

// Folders with such files, by their paths below `root`.
Result<std::map<std::string, fs::path>> FindTensorFolders(const fs::path& root) {
  MSP_ASSIGN_OR_RETURN(const std::vector<Folder> folders, WalkFolders(root, kDeepestTensors));
  std::map<std::string, fs::path> found;
  for (const Folder& folder : folders) {
    if (!TensorFilesOf(folder).empty()) {
      found.emplace(folder.path.lexically_relative(root).string(), folder.path);
    }
  }
  return found;
}

void AddTensorRow(const std::string& file, const ArraySummary* summary, const Status& status,
                  Side& side) {
  const std::string_view stem =
      std::string_view(file).substr(0, file.size() - kTensorSuffix.size());
  const TensorName name = ParseTensorName(stem);
  if (side.entries.empty() || side.entries.back().name != name.call) {
    side.entries.push_back({side.Keep(name.call), static_cast<uint32_t>(side.rows.size()), 0});
  }
  ++side.entries.back().row_count;
  SideRow row;
  row.name = side.Keep(stem);
  row.entry = static_cast<uint32_t>(side.entries.size() - 1);
  row.state = name.state;
  row.api_name = row.name.substr(0, std::min(name.call.size() + 1, row.name.size()));
  row.is_tensor = true;
  row.type = "tensor";
  row.data_name = side.Keep(file);
  row.dtype = "None";
  row.shape = "None";
  row.md5 = kNotApplicable;
  if (summary != nullptr) {
    row.dtype = DTypeName(summary->dtype);
    row.shape = side.Intern(ShapeText(summary->shape));
    for (size_t i = 0; i < kStatCount && msprobe::ElementCount(summary->shape) > 0; ++i) {
      row.stats[i].kind = StatKind::kNumber;
      row.stats[i].number = summary->stats[i];
    }
  } else {
    row.problem = side.Keep(status.message());
  }
  side.rows.push_back(row);
}

Result<Side> LoadTensorFolder(const fs::path& path, base::ThreadPool& pool) {
  MSP_ASSIGN_OR_RETURN(const std::vector<Folder> folders, WalkFolders(path, 0));
  const std::vector<std::string> files = TensorFilesOf(folders.front());
  std::vector<ArraySummary> summaries(files.size());
  std::vector<Status> statuses(files.size());
  pool.ParallelFor(files.size(), [&](size_t i, size_t) {
    statuses[i] = [&]() -> Status {
      MSP_ASSIGN_OR_RETURN(const TensorFile file, TensorFile::Open(path / files[i]));
      MSP_ASSIGN_OR_RETURN(const NamedTensor* tensor, file.Single());
      MSP_RETURN_IF_ERROR(tensor->status);
      summaries[i] = SummarizeArray(tensor->view);
      return {};
    }();
  });
  Side side;
  side.json_path = path;
  side.tensor_folder = path;
  side.header.task = "tensor";
  side.header.has_data = true;
  for (size_t i = 0; i < files.size(); ++i) {
    AddTensorRow(files[i], statuses[i].ok() ? &summaries[i] : nullptr, statuses[i], side);
  }
  side.header.entry_count = side.entries.size();
  return side;
}

}  // namespace

bool HoldsTensorFiles(const fs::path& folder) {
  const Result<std::map<std::string, fs::path>> found = FindTensorFolders(folder);
  return found.ok() && !found->empty();
}

Result<PairingPlan> PlanTensorFolders(const Options& options) {
  using Folders = std::map<std::string, fs::path>;
  MSP_ASSIGN_OR_RETURN(const Folders npu, FindTensorFolders(options.npu_path));
  MSP_ASSIGN_OR_RETURN(Folders bench, FindTensorFolders(options.bench_path));
  PairingPlan plan;
  for (const auto& [place, folder] : npu) {
    const auto partner = npu.size() == 1 && bench.size() == 1 ? bench.begin() : bench.find(place);
    if (partner == bench.end()) {
      plan.npu_only.push_back(place);
      continue;
    }
    PlannedPair pair;
    pair.input = {folder, partner->second, std::nullopt, std::nullopt};
    for (const fs::path& part : fs::path(place)) {
      const dump::NumberedName step = dump::ParseStepName(part.string());
      const dump::NumberedName rank = dump::ParseRankName(part.string());
      pair.input.step = step.valid ? step.number : pair.input.step;
      pair.input.rank = rank.valid ? rank.number : pair.input.rank;
    }
    pair.result_subfolder = npu.size() > 1 ? fs::path(place) : fs::path();
    plan.pairs.push_back(std::move(pair));
    bench.erase(partner);
  }
  for (const auto& [place, folder] : bench) {
    plan.bench_only.push_back(place);
  }
  if (plan.pairs.empty()) {
    return NotFoundError(fmt::format("no folder of {} has a partner in {} (here: {}; there: {})",
                                     options.npu_path.string(), options.bench_path.string(),
                                     base::Join(plan.npu_only, ", "),
                                     base::Join(plan.bench_only, ", ")));
  }
  return plan;
}

Result<ComparedPair> CompareTensorFolders(const Options& options, const PlannedPair& planned,
                                          base::ThreadPool& pool) {
  const base::Stopwatch load_watch;
  LoadedPair loaded;
  PairSource source;
  MSP_ASSIGN_OR_RETURN(loaded.npu, LoadTensorFolder(planned.input.npu_json, pool));
  MSP_ASSIGN_OR_RETURN(loaded.bench, LoadTensorFolder(planned.input.bench_json, pool));
  source.mapping = MapRowsByName(loaded.npu, loaded.bench);
  source.load_seconds = load_watch.seconds();
  return CompareLoaded(options, planned.input, std::move(loaded), std::move(source), pool);
}

}  // namespace msprobe::analysis::compare
