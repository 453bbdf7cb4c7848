// Kernels of MindSpore's static graphs: folders of .npy files, or of a statistic.csv, per rank and
// step. A kernel's tensor is known by operator, task, direction and slot; the n-th of such a key in
// time is compared with the n-th of the other side.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "src/analysis/compare/folders/folders.h"
#include "src/analysis/compare/result_table.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/report/readers.h"
#include "src/report/writers.h"
#include "src/report/xlsx_writer.h"

namespace msprobe::analysis::compare {
namespace {

using report::Cell;
using report::Table;

constexpr const char* kNameMapFile = "mapping.csv";
constexpr const char* kKernelStatisticFile = "statistic.csv";

// For each row how many rows of its key were written before it.
std::vector<size_t> Occurrences(const std::vector<KernelKey>& rows) {
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return WrittenBefore(rows[a].time, rows[b].time); });
  std::unordered_map<std::string_view, size_t> seen;
  std::vector<size_t> occurrence(rows.size());
  for (const size_t row : order) {
    occurrence[row] = seen[rows[row].key]++;
  }
  return occurrence;
}

// "{op type}.{op name}.{task}.{stream}.{time}.{input|output}.{index}.{slot}.{format}.npy"; false
// for other names. An operator's name may hold dots itself.
bool ParseKernelFileName(std::string_view name, KernelKey& key) {
  const std::vector<std::string_view> parts = base::Split(name, '.');
  constexpr size_t kFixedParts = 9;  // all but the operator's name
  if (parts.size() <= kFixedParts) {
    return false;
  }
  const size_t count = parts.size();
  const std::string_view direction = parts[count - 5];
  if ((direction != "input" && direction != "output") || parts[count - 1] != "npy") {
    return false;
  }
  key.key.clear();
  for (size_t i = 1; i + 8 < count; ++i) {
    key.key.append(parts[i]).append(".");
  }
  key.key.append(parts[count - 8]).append(".").append(direction).append(".");
  key.key.append(parts[count - 4]).append(".").append(parts[count - 3]);
  key.time = parts[count - 6];
  return true;
}

// mapping.csv gives files whose full names were too long for the file system a short one: short
// name, full name.
Result<std::unordered_map<std::string, std::string>> ReadNameMap(const Folder& folder) {
  std::unordered_map<std::string, std::string> full_names;
  if (!std::binary_search(folder.files.begin(), folder.files.end(), kNameMapFile)) {
    return full_names;
  }
  MSP_ASSIGN_OR_RETURN(const report::Table table, report::ReadCsv(folder.path / kNameMapFile));
  const auto with_suffix = [](std::string_view text) {
    std::string name(base::Trim(text));
    return name.ends_with(kArraySuffix) ? name : name + std::string(kArraySuffix);
  };
  for (size_t i = 0; i < table.row_count() && table.columns().size() >= 2; ++i) {
    const auto row = table.row(i);
    full_names.emplace(with_suffix(row[0].text()), with_suffix(row[1].text()));
  }
  return full_names;
}

struct KernelFiles {
  std::vector<KernelKey> keys;
  std::vector<std::filesystem::path> paths;
};

Result<KernelFiles> ListKernelFiles(const Folder& folder, std::vector<std::string>& warnings) {
  MSP_ASSIGN_OR_RETURN(const auto full_names, ReadNameMap(folder));
  KernelFiles files;
  size_t ignored = 0;
  KernelKey key;
  for (const std::string& file : folder.files) {
    if (!file.ends_with(kArraySuffix)) {
      continue;
    }
    const auto full_name = full_names.find(file);
    if (ParseKernelFileName(full_name == full_names.end() ? file : full_name->second, key)) {
      files.keys.push_back(key);
      files.paths.push_back(folder.path / file);
    } else {
      ++ignored;
    }
  }
  if (ignored > 0) {
    warnings.push_back(folder.path.string() + ": " + std::to_string(ignored) +
                       " .npy files are not named as kernel dumps are, and were left out");
  }
  return files;
}

// The reasons why a row is not compared.
std::string Objections(bool scalars, bool shapes, bool dtypes) {
  std::string message;
  message += scalars ? "A scalar cannot be compared.\n" : "";
  message += shapes ? "The tensor shapes differ.\n" : "";
  message += dtypes ? "The dtypes differ.\n" : "";
  return message;
}

FolderRow ArrayRow(const std::filesystem::path& npu_path, const std::filesystem::path& bench_path,
                   ArrayScratch& scratch) {
  FolderRow row;
  const ArrayPair pair = CompareArrays(npu_path, bench_path, scratch, row);
  row.AddIf(!npu_path.empty(), npu_path.string());
  row.AddIf(!bench_path.empty(), bench_path.string());
  AddTypesAndShapes(pair, Cell(), row);
  AddStatistics(pair, Cell(), Digits::kAll, row);
  // Here, other than in the comparison of dump.json files, every objection leaves verdict and
  // metrics blank.
  std::string message;
  const auto object = [&](std::string_view text) { message.append(text).append("\n"); };
  if (!pair.npu || !pair.bench) {
    object(base::Trim(pair.result.message));
  } else {
    const Shape& npu = pair.npu->shape;
    const Shape& bench = pair.bench->shape;
    if (msprobe::ElementCount(npu) == 0 || msprobe::ElementCount(bench) == 0) {
      object("An empty tensor cannot be compared.");
    }
    message += Objections(npu.empty() || bench.empty(), npu != bench,
                          pair.npu->dtype != pair.bench->dtype);
    if (message.empty() && pair.result.distance.nonfinite_differs &&
        pair.result.metrics[kCosine].text() == kNotApplicable) {
      object(base::Trim(pair.result.message));
    }
  }
  if (!message.empty()) {
    row.Add(Cell());
    row.Add(std::move(message));
    return row;
  }
  row.Add(Cell::Text(VerdictText(RealVerdict(pair.result.metrics))));
  row.Add(pair.result.message);
  AddMetrics(pair.result, row);
  return row;
}

constexpr size_t kLeastColumns = 13;
// Places of the columns that identify a row; the others are found by name.
constexpr std::array<size_t, 4> kKeyColumns = {1, 2, 5, 6};  // operator, task, direction, slot
constexpr size_t kTimeColumn = 4;
constexpr std::array<std::string_view, kStatCount> kGraphStatColumns = {
    "Max Value", "Min Value", "Avg Value", "L2Norm Value"};
constexpr float kNoStatistic = std::numeric_limits<float>::quiet_NaN();

struct StatisticRows {
  struct Row {
    std::string_view dtype;
    std::string_view shape;
    std::array<float, kStatCount> stats{};
  };
  Table table;       // keeps the texts
  std::string path;  // of the csv
  std::vector<KernelKey> keys;
  std::vector<Row> rows;
};

float ParseStatistic(std::string_view text) {
  text = base::Trim(text);
  if (text == "null" || text == "False" || text == "false") {
    return 0;
  }
  if (text == "True" || text == "true") {
    return 1;
  }
  const std::optional<double> value = base::ParseDouble(text);
  return value ? static_cast<float>(*value) : kNoStatistic;
}

Result<StatisticRows> ReadStatistics(const Folder& folder) {
  StatisticRows rows;
  const std::filesystem::path path = folder.path / kKernelStatisticFile;
  MSP_ASSIGN_OR_RETURN(rows.table, report::ReadCsv(path));
  rows.path = path.string();
  const std::vector<std::string>& columns = rows.table.columns();
  if (columns.size() < kLeastColumns) {
    return BadFormatError(rows.path + ": has " + std::to_string(columns.size()) +
                          " columns, a kernel statistic has at least " +
                          std::to_string(kLeastColumns));
  }
  const auto column = [&](std::string_view name) {
    const auto found = std::find(columns.begin(), columns.end(), name);
    return static_cast<size_t>(found - columns.begin());
  };
  const auto text_at = [](std::span<const Cell> row, size_t index) {
    return index < row.size() ? row[index].text() : std::string_view();
  };
  const size_t dtype_column = column("Data Type");
  const size_t shape_column = column("Shape");
  std::array<size_t, kStatCount> stat_columns{};
  std::transform(kGraphStatColumns.begin(), kGraphStatColumns.end(), stat_columns.begin(), column);
  for (size_t i = 0; i < rows.table.row_count(); ++i) {
    const auto row = rows.table.row(i);
    KernelKey key;
    for (const size_t part : kKeyColumns) {
      key.key += key.key.empty() ? "" : ".";
      key.key += row[part].text();
    }
    key.time = row[kTimeColumn].text();
    rows.keys.push_back(std::move(key));
    StatisticRows::Row& added = rows.rows.emplace_back();
    added.dtype = text_at(row, dtype_column);
    added.shape = text_at(row, shape_column);
    for (size_t stat = 0; stat < kStatCount; ++stat) {
      added.stats[stat] = stat_columns[stat] < row.size()
                              ? ParseStatistic(row[stat_columns[stat]].text())
                              : kNoStatistic;
    }
  }
  return rows;
}

Cell FloatCell(float value) {
  if (std::isnan(value)) {
    return {};
  }
  if (std::isinf(value)) {
    return Cell::Text(value > 0 ? "inf" : "-inf");
  }
  return Cell::Number(static_cast<double>(value));
}

// |x - y| / y in per cent where the bench value is positive, else 0.
void AddRelative(float difference, float bench, FolderRow& row) {
  const float relative = bench > 0 ? difference / bench : 0;
  if (std::isnan(relative)) {
    row.Add(Cell());
  } else if (bench > 0) {
    row.Add(base::PythonFloatRepr(static_cast<double>(relative) * 100) + "%");
  } else {
    row.Add(Cell::Text("0%"));
  }
}

// The largest difference against the larger of the two maxima; NaN on both sides agrees.
bool MaximaAgree(float npu_max, float bench_max, float difference) {
  constexpr double kTinyScale = 1e-10;
  constexpr double kLargestShare = 0.5;
  if (std::isnan(npu_max) && std::isnan(bench_max)) {
    return true;
  }
  const double scale = static_cast<double>(std::max(npu_max, bench_max)) + kTinyScale;
  return static_cast<double>(difference) / scale <= kLargestShare;
}

FolderRow StatisticRow(const StatisticRows& npu_rows, const StatisticRows& bench_rows,
                       const KernelPair& pair) {
  const StatisticRows::Row* npu = pair.npu == kNoKernel ? nullptr : &npu_rows.rows[pair.npu];
  const StatisticRows::Row* bench =
      pair.bench == kNoKernel ? nullptr : &bench_rows.rows[pair.bench];
  FolderRow row;
  row.AddIf(npu != nullptr,
            npu == nullptr ? "" : npu_rows.keys[pair.npu].key + " " + npu_rows.path);
  row.AddIf(bench != nullptr,
            bench == nullptr ? "" : bench_rows.keys[pair.bench].key + " " + bench_rows.path);
  for (const auto text : {&StatisticRows::Row::dtype, &StatisticRows::Row::shape}) {
    for (const StatisticRows::Row* side : {npu, bench}) {
      row.AddIf(side != nullptr, std::string(side == nullptr ? "" : side->*text));
    }
  }
  for (const StatisticRows::Row* side : {npu, bench}) {
    for (size_t stat = 0; stat < kStatCount; ++stat) {
      row.Add(side == nullptr ? Cell() : FloatCell(side->stats[stat]));
    }
  }
  std::string message;
  if (npu == nullptr || bench == nullptr) {
    row.outcome = npu == nullptr ? FolderRow::Outcome::kBenchOnly : FolderRow::Outcome::kNpuOnly;
    message = npu == nullptr ? "The NPU side has no such tensor.\n"
                             : "The bench side has no such tensor.\n";
  } else {
    const auto is_scalar = [](std::string_view shape) { return shape == "()" || shape == "[]"; };
    message = Objections(is_scalar(npu->shape) || is_scalar(bench->shape),
                         npu->shape != bench->shape, npu->dtype != bench->dtype);
    std::array<double, kStatCount> n{};
    std::array<double, kStatCount> b{};
    std::copy(npu->stats.begin(), npu->stats.end(), n.begin());
    std::copy(bench->stats.begin(), bench->stats.end(), b.begin());
    row.outcome = npu->shape != bench->shape || npu->dtype != bench->dtype
                      ? FolderRow::Outcome::kMismatched
                      : FolderRow::Outcome::kCompared;
    row.distance = FolderDistance(n, b);
    row.noise = kTextNoise;
  }
  if (!message.empty()) {
    row.Add(Cell());
    row.Add(std::move(message));
    return row;
  }
  std::array<float, kStatCount> differences{};
  for (size_t stat = 0; stat < kStatCount; ++stat) {
    differences[stat] = std::fabs(npu->stats[stat] - bench->stats[stat]);
  }
  row.Add(Cell::Text(MaximaAgree(npu->stats[kMax], bench->stats[kMax], differences[kMax]) ? "Yes"
                                                                                          : "No"));
  row.Add(Cell::Text(""));
  for (const float difference : differences) {
    row.Add(FloatCell(difference));
  }
  for (size_t stat = 0; stat < kStatCount; ++stat) {
    AddRelative(differences[stat], bench->stats[stat], row);
  }
  return row;
}

// The kind of files in a kernel folder.
enum class KernelFolderKind : uint8_t { kNeither, kArrays, kStatistics };

KernelFolderKind KindOf(const Folder& folder) {
  bool statistics = false;
  for (const std::string& file : folder.files) {
    if (file.ends_with(kArraySuffix)) {
      return KernelFolderKind::kArrays;
    }
    statistics = statistics || file == kKernelStatisticFile;
  }
  return statistics ? KernelFolderKind::kStatistics : KernelFolderKind::kNeither;
}

std::vector<std::string> KernelColumns(KernelFolderKind kind) {
  const CompareMode mode =
      kind == KernelFolderKind::kArrays ? CompareMode::kRealData : CompareMode::kStatistics;
  // The same columns as other comparisons have, but the metrics stand last and the verdict has one
  // name.
  const std::vector<std::string> all = ResultColumns(mode, false);
  const std::vector<std::string> metrics = MetricColumns(mode);
  constexpr size_t kCommonCount = 6;
  constexpr size_t kStatColumnCount = 2 * kStatCount;
  std::vector<std::string> columns(all.begin(), all.begin() + kCommonCount);
  const auto stats = all.begin() + static_cast<ptrdiff_t>(kCommonCount + metrics.size());
  columns.insert(columns.end(), stats, stats + kStatColumnCount);
  columns.insert(columns.end(), {"Accuracy Reached or Not", "Err_message"});
  columns.insert(columns.end(), metrics.begin(), metrics.end());
  return columns;
}

// Appends the rows of two folders to the last table: those with an NPU side first, then those of
// the bench side alone.
Status AddFolderPair(const Folder& npu, const Folder& bench, KernelFolderKind kind,
                     base::ThreadPool& pool, FolderComparison& comparison) {
  std::vector<ArrayScratch> scratch(pool.thread_count());
  const auto compare = [&](const std::vector<KernelKey>& npu_keys,
                           const std::vector<KernelKey>& bench_keys, auto&& row_of) {
    const std::vector<KernelPair> pairs = PairKernels(npu_keys, bench_keys);
    CompareRows(
        pairs.size(),
        [&](size_t i, size_t worker) {
          FolderRow row = row_of(pairs[i], worker);
          row.table = comparison.tables.size() - 1;
          const KernelKey& key =
              pairs[i].npu == kNoKernel ? bench_keys[pairs[i].bench] : npu_keys[pairs[i].npu];
          row.name = key.key;
          row.time = key.time;
          return row;
        },
        FirstBy::kTime, pool, comparison);
  };
  if (kind == KernelFolderKind::kStatistics) {
    MSP_ASSIGN_OR_RETURN(const StatisticRows n, ReadStatistics(npu));
    MSP_ASSIGN_OR_RETURN(const StatisticRows b, ReadStatistics(bench));
    compare(n.keys, b.keys,
            [&](const KernelPair& pair, size_t) { return StatisticRow(n, b, pair); });
    return OkStatus();
  }
  MSP_ASSIGN_OR_RETURN(const KernelFiles n, ListKernelFiles(npu, comparison.warnings));
  MSP_ASSIGN_OR_RETURN(const KernelFiles b, ListKernelFiles(bench, comparison.warnings));
  const auto path_of = [](const KernelFiles& files, size_t index) {
    return index == kNoKernel ? std::filesystem::path() : files.paths[index];
  };
  compare(n.keys, b.keys, [&](const KernelPair& pair, size_t worker) {
    return ArrayRow(path_of(n, pair.npu), path_of(b, pair.bench), scratch[worker]);
  });
  return OkStatus();
}

constexpr int kDeepestGraphFolder = 10;
// A sheet holds 1,048,576 rows with its header; larger results are halved into several files until
// each fits.
constexpr size_t kRowsPerFile = report::kMaxSheetRows;

struct KernelFolder {
  Folder folder;
  std::string place;  // the segments between rank and step: which graph this is
};
using RankStep = std::pair<int64_t, int64_t>;
using FoldersByRankStep = std::map<RankStep, std::vector<KernelFolder>>;

// Rank and step from ".../rank_0/<graph name>/<graph id>/<step>",
// ".../<rank>/<graph name>/<graph id>/<step>" or ".../<rank>/<graph>/<step>".
std::optional<RankStep> RankStepOf(const std::string& path, std::string& place) {
  const std::vector<std::string_view> segments = base::Split(path, '/');
  const size_t count = segments.size();
  if (count < 4) {
    return std::nullopt;
  }
  const std::optional<int64_t> step = FolderNumber(segments[count - 1]);
  const std::string_view fourth_last = segments[count - 4];
  std::optional<int64_t> rank;
  place = std::string(segments[count - 3]) + "/" + std::string(segments[count - 2]);
  if (path.find("rank_") != std::string::npos) {
    rank = FolderNumber(fourth_last.substr(fourth_last.rfind('_') + 1));
  } else {
    rank = FolderNumber(fourth_last);
    if (!rank) {
      rank = FolderNumber(segments[count - 3]);
      place = segments[count - 2];
    }
  }
  return rank && step ? std::optional<RankStep>({*rank, *step}) : std::nullopt;
}

bool Wanted(const std::vector<int64_t>& ids, int64_t id) {
  return ids.empty() || std::find(ids.begin(), ids.end(), id) != ids.end();
}

Result<FoldersByRankStep> FindKernelFolders(const std::filesystem::path& root,
                                            const Options& options) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(root, error).lexically_normal();
  MSP_ASSIGN_OR_RETURN(std::vector<Folder> folders, WalkFolders(absolute, kDeepestGraphFolder));
  FoldersByRankStep found;
  for (Folder& folder : folders) {
    if (folder.has_subfolders) {
      continue;
    }
    KernelFolder kernel_folder;
    const std::optional<RankStep> rank_step = RankStepOf(folder.path.string(), kernel_folder.place);
    if (rank_step &&
        (!options.folders.rank_ids || Wanted(*options.folders.rank_ids, rank_step->first)) &&
        Wanted(options.folders.step_ids, rank_step->second)) {
      kernel_folder.folder = std::move(folder);
      found[*rank_step].push_back(std::move(kernel_folder));
    }
  }
  if (found.empty()) {
    return NotFoundError(root.string() + ": holds no kernel dump of the requested ranks and steps")
        .WithHint("expected folders like rank_0/<graph name>/<graph id>/<step>");
  }
  return found;
}

std::string Describe(const RankStep& rank_step) {
  return "rank " + std::to_string(rank_step.first) + ", step " + std::to_string(rank_step.second);
}

// One folder per side is a pair whatever the graphs are called; with several, equal graphs are
// paired.
std::vector<std::pair<const Folder*, const Folder*>> PairFolders(
    const RankStep& rank_step, const std::vector<KernelFolder>& npu,
    const std::vector<KernelFolder>& bench, std::vector<std::string>& warnings) {
  std::vector<std::pair<const Folder*, const Folder*>> pairs;
  if (npu.size() == 1 && bench.size() == 1) {
    pairs.emplace_back(&npu[0].folder, &bench[0].folder);
    return pairs;
  }
  for (const KernelFolder& folder : npu) {
    const auto partner = std::find_if(
        bench.begin(), bench.end(),
        [&](const KernelFolder& candidate) { return candidate.place == folder.place; });
    if (partner == bench.end()) {
      warnings.push_back(Describe(rank_step) + ": graph " + folder.place +
                         " is not in the reference");
    } else {
      pairs.emplace_back(&folder.folder, &partner->folder);
    }
  }
  return pairs;
}

Table CopyRows(const Table& table, size_t first, size_t count) {
  Table part(table.name(), table.columns());
  part.Reserve(count);
  std::vector<report::Cell> cells;
  for (size_t i = first; i < first + count; ++i) {
    cells.clear();
    for (const report::Cell& cell : table.row(i)) {
      cells.push_back(cell.kind() == report::CellKind::kText ? part.KeepText(cell.text()) : cell);
    }
    part.AddRow(cells, table.fill(i));
  }
  return part;
}

// Compares the folders of one step of a rank, whose rows are in one table. A pair that cannot be
// compared is a warning.
void CompareStep(const RankStep& rank_step, const std::vector<KernelFolder>& npu_folders,
                 const std::vector<KernelFolder>& bench_folders, base::ThreadPool& pool,
                 FolderComparison& comparison) {
  const size_t tables = comparison.tables.size();
  for (const auto& [npu, bench] :
       PairFolders(rank_step, npu_folders, bench_folders, comparison.warnings)) {
    const auto compare = [&, npu = npu, bench = bench]() -> Status {
      const std::string path = npu->path.string();
      const KernelFolderKind kind = KindOf(*npu);
      if (kind == KernelFolderKind::kNeither) {
        return MismatchError(path + ": holds neither .npy files nor a " + kKernelStatisticFile);
      }
      if (KindOf(*bench) != kind) {
        return MismatchError(path + " and " + bench->path.string() +
                             ": one side holds tensors, the other statistics");
      }
      if (comparison.tables.size() == tables) {
        FolderTable& table = comparison.tables.emplace_back();
        table.name = "compare_result_" + std::to_string(rank_step.first) + "_" +
                     std::to_string(rank_step.second);
        table.styled_header = true;
        table.table = Table("Sheet1", KernelColumns(kind));
      } else if (comparison.tables.back().table.columns() != KernelColumns(kind)) {
        return MismatchError(path + ": tensors and statistics cannot share one result table");
      }
      return AddFolderPair(*npu, *bench, kind, pool, comparison);
    };
    if (const Status status = compare(); !status.ok()) {
      comparison.warnings.push_back(Describe(rank_step) + ": " + status.message());
    }
  }
}

// Replaces the last table by slices that fit into a sheet each.
void SliceLastTable(FolderComparison& comparison) {
  const auto parts = HalveRows(comparison.tables.back().table.row_count(), kRowsPerFile);
  if (parts.size() == 1) {
    return;
  }
  FolderTable whole = std::move(comparison.tables.back());
  comparison.tables.pop_back();
  for (size_t i = 0; i < parts.size(); ++i) {
    FolderTable& slice = comparison.tables.emplace_back();
    slice.name = whole.name;
    slice.name_end = "_slice_" + std::to_string(i);
    slice.styled_header = true;
    slice.table = CopyRows(whole.table, parts[i].first, parts[i].second);
    slice.counts = std::exchange(whole.counts, {});  // of all slices, counted once
  }
}

}  // namespace

std::vector<KernelPair> PairKernels(const std::vector<KernelKey>& npu,
                                    const std::vector<KernelKey>& bench) {
  const std::vector<size_t> npu_occurrence = Occurrences(npu);
  const std::vector<size_t> bench_occurrence = Occurrences(bench);
  std::unordered_map<std::string_view, std::vector<size_t>> bench_of_key;
  for (size_t i = 0; i < bench.size(); ++i) {
    std::vector<size_t>& rows = bench_of_key[bench[i].key];
    rows.resize(std::max(rows.size(), bench_occurrence[i] + 1));
    rows[bench_occurrence[i]] = i;
  }
  std::vector<KernelPair> pairs;
  std::vector<bool> used(bench.size(), false);
  for (size_t i = 0; i < npu.size(); ++i) {
    KernelPair pair{i, kNoKernel};
    const auto rows = bench_of_key.find(npu[i].key);
    if (rows != bench_of_key.end() && npu_occurrence[i] < rows->second.size()) {
      pair.bench = rows->second[npu_occurrence[i]];
      used[pair.bench] = true;
    }
    pairs.push_back(pair);
  }
  for (size_t i = 0; i < bench.size(); ++i) {
    if (!used[i]) {
      pairs.push_back({kNoKernel, i});
    }
  }
  return pairs;
}

std::vector<std::pair<size_t, size_t>> HalveRows(size_t row_count, size_t limit) {
  std::vector<std::pair<size_t, size_t>> parts = {{0, row_count}};
  for (size_t i = 0; i < parts.size();) {
    const auto [first, count] = parts[i];
    if (count <= limit || count < 2) {
      ++i;
      continue;
    }
    parts[i].second = count / 2;
    parts.insert(parts.begin() + static_cast<ptrdiff_t>(i) + 1,
                 {first + count / 2, count - count / 2});
  }
  return parts;
}

bool HoldsGraphKernels(const std::filesystem::path& folder) {
  const Result<FoldersByRankStep> found = FindKernelFolders(folder, Options());
  return found.ok() && std::any_of(found->begin(), found->end(), [](const auto& of_step) {
           return std::any_of(of_step.second.begin(), of_step.second.end(),
                              [](const KernelFolder& kernels) {
                                return KindOf(kernels.folder) != KernelFolderKind::kNeither;
                              });
         });
}

Result<FolderComparison> CompareGraphFolders(const Options& options, base::ThreadPool& pool) {
  MSP_ASSIGN_OR_RETURN(const FoldersByRankStep npu, FindKernelFolders(options.npu_path, options));
  MSP_ASSIGN_OR_RETURN(const FoldersByRankStep bench,
                       FindKernelFolders(options.bench_path, options));
  FolderComparison comparison;
  for (const auto& [rank_step, npu_folders] : npu) {
    const auto bench_folders = bench.find(rank_step);
    if (bench_folders == bench.end()) {
      comparison.warnings.push_back(Describe(rank_step) + " is not in the reference");
      continue;
    }
    const size_t tables = comparison.tables.size();
    CompareStep(rank_step, npu_folders, bench_folders->second, pool, comparison);
    if (comparison.tables.size() > tables) {
      SliceLastTable(comparison);
    }
  }
  if (comparison.tables.empty()) {
    std::string reasons;
    for (const std::string& warning : comparison.warnings) {
      reasons += "; " + warning;
    }
    return MismatchError("the kernel dumps have nothing to compare in common" + reasons);
  }
  return comparison;
}

}  // namespace msprobe::analysis::compare
