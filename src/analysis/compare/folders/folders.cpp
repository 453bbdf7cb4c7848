// The parts of folders.h that comparisons share, and single-point saves, the simplest of them.
#include "src/analysis/compare/folders/folders.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "msprobe/tensor_file.h"

#include "src/analysis/compare/folders/kernels.h"
#include "src/analysis/compare/result_table.h"
#include "src/analysis/kernel_dump/numbers.h"
#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/dump/layout.h"
#include "src/tensor/float_bits.h"
#include "src/tensor/float_limits.h"

namespace msprobe::analysis::compare {
namespace {

// An unreadable path may be anything: that error is reported, and nothing is guessed.
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

namespace {

constexpr size_t kRowsAtATime = 16'384;  // bounds the memory of rows that are not in the table yet

// A row with values on both sides, as it is counted.
struct ComparedRow {
  size_t table = 0;
  std::string name;
  std::string time;
  Distance distance;
  double noise = 0;
};

void CountCompared(const ComparedRow& row, FolderCounts& counts) {
  const Distance& distance = row.distance;
  ++counts.matched;
  counts.identical += distance.identical ? 1 : 0;
  if (distance.identical || (!distance.nonfinite_differs && distance.relative <= row.noise)) {
    ++counts.agreeing;
  } else if (counts.differing++ == 0) {
    counts.first_differing =
        distance.nonfinite_differs
            ? fmt::format("{}: NaN or infinity on one side only", row.name)
            : fmt::format("{}: apart by {:.1e} of its size", row.name, distance.relative);
  }
}

void AddToTable(const FolderRow& row, report::Table& table) {
  std::vector<report::Cell> cells;
  for (const std::variant<report::Cell, std::string>& cell : row.cells) {
    const auto* text = std::get_if<std::string>(&cell);
    cells.push_back(text != nullptr ? table.KeepText(*text) : std::get<report::Cell>(cell));
  }
  cells.resize(table.columns().size());
  table.AddRow(cells);
}

std::tuple<bool, size_t, std::string_view> TimeOrder(std::string_view time) {
  const bool digits = time.find_first_not_of("0123456789") == std::string_view::npos;
  if (!digits) {
    return {true, 0, time};
  }
  time.remove_prefix(std::min(time.find_first_not_of('0'), time.size()));
  return {false, time.size(), time};
}

}  // namespace

bool WrittenBefore(std::string_view time, std::string_view other) {
  return TimeOrder(time) < TimeOrder(other);
}

void CompareRows(size_t count, const std::function<FolderRow(size_t pair, size_t worker)>& row_of,
                 FirstBy first_by, base::ThreadPool& pool, FolderComparison& comparison) {
  std::vector<ComparedRow> compared;
  std::vector<FolderRow> rows;
  for (size_t begin = 0; begin < count; begin += kRowsAtATime) {
    rows.assign(std::min(kRowsAtATime, count - begin), FolderRow());
    pool.ParallelFor(rows.size(),
                     [&](size_t i, size_t worker) { rows[i] = row_of(begin + i, worker); });
    for (FolderRow& row : rows) {
      FolderTable& table = comparison.tables[row.table];
      AddToTable(row, table.table);
      table.counts.unreadable += row.unreadable ? 1 : 0;
      table.counts.npu_only += row.outcome == FolderRow::Outcome::kNpuOnly ? 1 : 0;
      table.counts.bench_only += row.outcome == FolderRow::Outcome::kBenchOnly ? 1 : 0;
      table.counts.shape_mismatch += row.outcome == FolderRow::Outcome::kMismatched ? 1 : 0;
      if (row.outcome == FolderRow::Outcome::kCompared && row.distance.comparable) {
        compared.push_back(
            {row.table, std::move(row.name), std::move(row.time), row.distance, row.noise});
      }
      if (!row.warning.empty()) {
        comparison.warnings.push_back(std::move(row.warning));
      }
    }
  }
  if (first_by == FirstBy::kTime) {
    std::stable_sort(compared.begin(), compared.end(),
                     [](const ComparedRow& a, const ComparedRow& b) {
                       return std::pair(TimeOrder(a.time), std::string_view(a.name)) <
                              std::pair(TimeOrder(b.time), std::string_view(b.name));
                     });
  }
  for (const ComparedRow& row : compared) {
    CountCompared(row, comparison.tables[row.table].counts);
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

ArraySummary SummarizeArray(const TensorView& view) {
  ArraySummary summary;
  summary.dtype = view.dtype;
  summary.shape = view.shape;
  if (view.element_count() == 0) {
    summary.stats.fill(std::numeric_limits<double>::quiet_NaN());
    return summary;
  }
  const kernels::TensorStats stats = kernel_dump::StatisticsOf(view);
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

}  // namespace

ArrayPair CompareArrays(const std::filesystem::path& npu, const std::filesystem::path& bench,
                        ArrayScratch& scratch, FolderRow& row) {
  ArrayPair pair;
  std::string problem = npu.empty()     ? "No NPU file matches this bench file. "
                        : bench.empty() ? "No bench file matches this NPU file. "
                                        : "";
  const OpenedArray npu_array = npu.empty() ? OpenedArray() : OpenArray(npu, scratch.npu);
  const OpenedArray bench_array = bench.empty() ? OpenedArray() : OpenArray(bench, scratch.bench);
  for (const OpenedArray* array : {&npu_array, &bench_array}) {
    if (!array->problem.empty()) {
      problem += array->problem + ". ";
      row.unreadable = true;
    }
  }
  if (npu_array.view != nullptr) {
    pair.npu = SummarizeArray(*npu_array.view);
  }
  if (bench_array.view != nullptr) {
    pair.bench = SummarizeArray(*bench_array.view);
  }
  row.outcome = npu.empty()     ? FolderRow::Outcome::kBenchOnly
                : bench.empty() ? FolderRow::Outcome::kNpuOnly
                                : FolderRow::Outcome::kNoValues;
  if (!pair.npu || !pair.bench) {
    pair.result = UniformRealMetrics("unsupported", std::move(problem));
    return pair;
  }
  pair.result = ComputeRealMetrics(*npu_array.view, *bench_array.view);
  const bool same = pair.npu->shape == pair.bench->shape && pair.npu->dtype == pair.bench->dtype;
  row.outcome = same ? FolderRow::Outcome::kCompared : FolderRow::Outcome::kMismatched;
  row.distance = pair.result.distance;
  row.noise = FolderNoise(pair.npu->dtype, pair.bench->dtype);
  return pair;
}

void AddTypesAndShapes(const ArrayPair& pair, report::Cell missing, FolderRow& row) {
  for (const auto* side : {&pair.npu, &pair.bench}) {
    row.Add(*side ? report::Cell::Text(DTypeName((*side)->dtype)) : missing);
  }
  for (const auto* side : {&pair.npu, &pair.bench}) {
    if (*side) {
      row.Add(kernel_dump::TupleText((*side)->shape));
    } else {
      row.Add(missing);
    }
  }
}

void AddStatistics(const ArrayPair& pair, report::Cell missing, Digits digits, FolderRow& row) {
  for (const auto* side : {&pair.npu, &pair.bench}) {
    for (const Stat stat : {kMax, kMin, kMean, kNorm}) {
      row.Add(*side ? ArrayStatCell(**side, stat, digits) : missing);
    }
  }
}

void AddMetrics(const RealMetrics& metrics, FolderRow& row) {
  for (size_t i = 0; i <= kFiveThousandths; ++i) {
    const Metric& metric = metrics.metrics[i];
    row.Add(metric.kind == MetricKind::kText ? report::Cell::Text(metric.text())
                                             : report::Cell::Number(metric.number()));
  }
}

report::Cell ArrayStatCell(const ArraySummary& summary, Stat stat, Digits digits) {
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
  if (digits == Digits::kShortest && summary.dtype == DType::kFloat16) {
    value = ShortestFloat16(value);
  } else if (digits == Digits::kShortest && summary.dtype == DType::kFloat32) {
    value = ShortestFloat32(value);
  }
  return report::Cell::Number(value);
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

std::optional<int64_t> FolderNumber(std::string_view text) {
  const std::optional<int64_t> number = base::ParseInt(text);
  return number && *number >= 0 && std::all_of(text.begin(), text.end(), base::IsDigit)
             ? number
             : std::nullopt;
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

struct SavedPair {
  size_t table = 0;
  std::string name;  // "out_0"
  fs::path npu;
  fs::path bench;  // empty: nothing belongs to the NPU file
};

std::vector<std::string> CommonColumns() {
  std::vector<std::string> columns = {"Name", "NPU Dtype", "Bench Dtype", "NPU Tensor Shape",
                                      "Bench Tensor Shape"};
  const std::vector<std::string> all = ResultColumns(CompareMode::kRealData, false);
  columns.insert(columns.end(), all.begin() + 6, all.end());
  return columns;
}

FolderRow CommonRow(const SavedPair& saved, ArrayScratch& scratch) {
  FolderRow row;
  const ArrayPair pair = CompareArrays(saved.npu, saved.bench, scratch, row);
  const Cell missing = Cell::Text(kNotApplicable);
  row.table = saved.table;
  row.name = saved.name;
  row.Add(saved.name);
  AddTypesAndShapes(pair, missing, row);
  AddMetrics(pair.result, row);
  AddStatistics(pair, missing, Digits::kShortest, row);
  row.Add(Cell::Text(VerdictText(RealVerdict(pair.result.metrics))));
  row.Add(std::string(base::Trim(pair.result.message)));
  const std::string npu = saved.npu.string();
  const std::string bench = saved.bench.string();
  const std::string_view names[] = {npu, bench.empty() ? kNotApplicable : bench};
  row.Add(PythonTextList(names));
  return row;
}

// Each file of the NPU side, with its partner where it has one, for the last table; files of the
// bench side alone are counted only.
void AddSavedPairs(const Options& options, const Groups& npu, const Groups& bench,
                   const std::string& folder, FolderComparison& comparison,
                   std::vector<SavedPair>& pairs) {
  size_t partners = 0;
  const std::map<std::string, std::string> bench_names(options.folders.common_map.begin(),
                                                       options.folders.common_map.end());
  for (const auto& [group, files] : npu) {
    const auto mapped = bench_names.find(group);
    const auto partner = bench.find(mapped == bench_names.end() ? group : mapped->second);
    const size_t partner_count = partner == bench.end() ? 0 : partner->second.size();
    if (partner_count != files.size()) {
      comparison.warnings.push_back(
          fmt::format("{}: group {} has {} files on the test side and {} on the reference side",
                      folder, group, files.size(), partner_count));
    }
    for (size_t i = 0; i < files.size(); ++i) {
      pairs.push_back({comparison.tables.size() - 1, fmt::format("{}_{}", group, i), files[i],
                       i < partner_count ? partner->second[i] : fs::path()});
      partners += i < partner_count ? 1 : 0;
    }
  }
  size_t bench_files = 0;
  for (const auto& [group, files] : bench) {
    bench_files += files.size();
  }
  comparison.tables.back().counts.bench_only = bench_files - std::min(partners, bench_files);
}

}  // namespace

Result<FolderComparison> CompareCommonFolders(const Options& options, base::ThreadPool& pool) {
  MSP_ASSIGN_OR_RETURN(const std::vector<Folder> folders,
                       WalkFolders(options.npu_path, kDeepestFolder));
  FolderComparison comparison;
  std::vector<SavedPair> pairs;
  for (const Folder& folder : folders) {
    if (!HoldsArrays(folder)) {
      continue;
    }
    const fs::path below = folder.path.lexically_relative(options.npu_path);
    const fs::path relative = below == "." ? fs::path() : below;
    const fs::path bench_folder = base::Below(options.bench_path, relative);
    if (!base::IsFolder(bench_folder)) {
      comparison.warnings.push_back(folder.path.string() + ": the reference has no such folder");
      continue;
    }
    MSP_ASSIGN_OR_RETURN(const Groups npu, GroupFiles(folder.path, comparison.warnings));
    MSP_ASSIGN_OR_RETURN(const Groups bench, GroupFiles(bench_folder, comparison.warnings));
    FolderTable& table = comparison.tables.emplace_back();
    table.folder = relative;
    table.name = "result";
    table.is_csv = true;
    table.table = report::Table("result", CommonColumns());
    AddSavedPairs(options, npu, bench, folder.path.string(), comparison, pairs);
  }
  if (comparison.tables.empty()) {
    return MismatchError(options.npu_path.string() + " and " + options.bench_path.string() +
                         ": no folder with .npy files is in both");
  }
  std::vector<ArrayScratch> scratch(pool.thread_count());
  CompareRows(
      pairs.size(), [&](size_t i, size_t worker) { return CommonRow(pairs[i], scratch[worker]); },
      FirstBy::kPlace, pool, comparison);
  return comparison;
}

}  // namespace msprobe::analysis::compare
