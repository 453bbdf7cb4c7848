#include "src/analysis/compare/folders/graph_folders.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <tuple>
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

constexpr const char* kNameMapFile = "mapping.csv";

// Digits compare as numbers however long they are; anything else as text behind them.
std::tuple<bool, size_t, std::string_view> TimeOrder(std::string_view time) {
  const bool digits = time.find_first_not_of("0123456789") == std::string_view::npos;
  if (!digits) {
    return {true, 0, time};
  }
  time.remove_prefix(std::min(time.find_first_not_of('0'), time.size()));
  return {false, time.size(), time};
}

// Which occurrence of its key, in time, each row is.
std::vector<size_t> Occurrences(const std::vector<KernelKey>& rows) {
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return TimeOrder(rows[a].time) < TimeOrder(rows[b].time);
  });
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

void AppendArrayRow(const std::string& npu_path, const std::string& bench_path,
                    const ArrayPair& pair, report::Table& table) {
  std::vector<Cell> cells;
  const auto add_text = [&](bool present, const std::string& text) {
    cells.push_back(present ? table.KeepText(text) : Cell());
  };
  add_text(!npu_path.empty(), npu_path);
  add_text(!bench_path.empty(), bench_path);
  for (const auto* side : {&pair.npu, &pair.bench}) {
    cells.push_back(*side ? Cell::Text(DTypeName((*side)->dtype)) : Cell());
  }
  for (const auto* side : {&pair.npu, &pair.bench}) {
    add_text(side->has_value(), *side ? NumpyShapeText((*side)->shape) : "");
  }
  for (const auto* side : {&pair.npu, &pair.bench}) {
    for (const Stat stat : {kMax, kMin, kMean, kNorm}) {
      cells.push_back(*side ? ArrayStatCell(**side, stat) : Cell());
    }
  }
  // Here, other than in the comparison of dump.json files, every objection leaves verdict and
  // metrics blank.
  std::string message;
  const auto object = [&](std::string_view text) { message.append(text).append("\n"); };
  if (!pair.npu || !pair.bench) {
    object(base::Trim(pair.result.message));
  } else {
    const ArraySummary& npu = *pair.npu;
    const ArraySummary& bench = *pair.bench;
    if (msprobe::ElementCount(npu.shape) == 0 || msprobe::ElementCount(bench.shape) == 0) {
      object("An empty tensor cannot be compared.");
    }
    if (npu.shape.empty() || bench.shape.empty()) {
      object("A scalar cannot be compared.");
    }
    if (npu.shape != bench.shape) {
      object("The tensor shapes differ.");
    }
    if (npu.dtype != bench.dtype) {
      object("The dtypes differ.");
    }
    if (message.empty() && pair.result.distance.nonfinite_differs &&
        pair.result.metrics[kCosine].text == kNotApplicable) {
      object(base::Trim(pair.result.message));
    }
  }
  const bool compared = message.empty();
  if (compared) {
    message = pair.result.message;
  }
  cells.push_back(compared ? Cell::Text(VerdictText(RealVerdict(pair.result.metrics))) : Cell());
  cells.push_back(table.KeepText(message));
  for (size_t i = 0; i < MetricColumns(CompareMode::kRealData).size(); ++i) {
    cells.push_back(compared ? MetricCell(pair.result.metrics[i], table) : Cell());
  }
  table.AddRow(cells);
}

}  // namespace

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

void CountInOrder(std::vector<KernelOutcome> outcomes, FolderCounts& counts) {
  std::stable_sort(outcomes.begin(), outcomes.end(),
                   [](const KernelOutcome& a, const KernelOutcome& b) {
                     return std::pair(TimeOrder(a.key->time), std::string_view(a.key->key)) <
                            std::pair(TimeOrder(b.key->time), std::string_view(b.key->key));
                   });
  for (const KernelOutcome& outcome : outcomes) {
    counts.Add(outcome.distance, outcome.noise, outcome.key->key);
  }
}

Status AppendArrayRows(const Folder& npu, const Folder& bench, base::ThreadPool& pool,
                       report::Table& table, FolderCounts& counts,
                       std::vector<std::string>& warnings) {
  MSP_ASSIGN_OR_RETURN(const KernelFiles npu_files, ListKernelFiles(npu, warnings));
  MSP_ASSIGN_OR_RETURN(const KernelFiles bench_files, ListKernelFiles(bench, warnings));
  const std::vector<KernelPair> pairs = PairKernels(npu_files.keys, bench_files.keys);
  const auto path_of = [](const KernelFiles& files, size_t index) {
    return index == kNoKernel ? std::filesystem::path() : files.paths[index];
  };
  std::vector<ArrayPair> results(pairs.size());
  std::vector<ArrayScratch> scratch(pool.thread_count());
  pool.ParallelFor(pairs.size(), [&](size_t i, size_t worker) {
    results[i] = CompareArrays(path_of(npu_files, pairs[i].npu),
                               path_of(bench_files, pairs[i].bench), scratch[worker]);
  });
  std::vector<KernelOutcome> outcomes;
  for (size_t i = 0; i < pairs.size(); ++i) {
    AppendArrayRow(path_of(npu_files, pairs[i].npu).string(),
                   path_of(bench_files, pairs[i].bench).string(), results[i], table);
    if (const std::optional<double> noise = NoiseOrCount(results[i], pairs[i].npu != kNoKernel,
                                                         pairs[i].bench != kNoKernel, counts)) {
      outcomes.push_back({&npu_files.keys[pairs[i].npu], results[i].result.distance, *noise});
    }
  }
  CountInOrder(std::move(outcomes), counts);
  return OkStatus();
}

namespace {

constexpr size_t kLeastColumns = 13;
// Places of the columns that identify a row; the others are found by name.
constexpr std::array<size_t, 4> kKeyColumns = {1, 2, 5, 6};  // operator, task, direction, slot
constexpr size_t kTimeColumn = 4;
constexpr std::array<std::string_view, kStatCount> kGraphStatColumns = {
    "Max Value", "Min Value", "Avg Value", "L2Norm Value"};
constexpr float kNoStatistic = std::numeric_limits<float>::quiet_NaN();

struct StatisticRows {
  report::Table table;  // keeps the texts
  std::string path;     // of the csv
  std::vector<KernelKey> keys;
  std::vector<std::string_view> dtypes;
  std::vector<std::string_view> shapes;
  std::vector<std::array<float, kStatCount>> stats;
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
    rows.dtypes.push_back(text_at(row, dtype_column));
    rows.shapes.push_back(text_at(row, shape_column));
    std::array<float, kStatCount>& stats = rows.stats.emplace_back();
    for (size_t stat = 0; stat < kStatCount; ++stat) {
      stats[stat] = stat_columns[stat] < row.size() ? ParseStatistic(row[stat_columns[stat]].text())
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
Cell RelativeCell(float difference, float bench, report::Table& table) {
  if (!(bench > 0)) {
    return Cell::Text("0%");
  }
  const float relative = difference / bench;
  if (std::isnan(relative)) {
    return {};
  }
  std::string text;
  base::AppendPythonFloatRepr(static_cast<double>(relative) * 100, text);
  return table.KeepText(text + "%");
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

std::string Objections(std::string_view npu_dtype, std::string_view bench_dtype,
                       std::string_view npu_shape, std::string_view bench_shape) {
  std::string message;
  const auto is_scalar = [](std::string_view shape) { return shape == "()" || shape == "[]"; };
  if (is_scalar(npu_shape) || is_scalar(bench_shape)) {
    message += "A scalar cannot be compared.\n";
  }
  if (npu_shape != bench_shape) {
    message += "The tensor shapes differ.\n";
  }
  if (npu_dtype != bench_dtype) {
    message += "The dtypes differ.\n";
  }
  return message;
}

void AppendStatisticRow(const StatisticRows& npu, const StatisticRows& bench,
                        const KernelPair& pair, report::Table& table) {
  const bool has_npu = pair.npu != kNoKernel;
  const bool has_bench = pair.bench != kNoKernel;
  std::vector<Cell> cells;
  const auto add_name = [&](bool present, const StatisticRows& rows, size_t index) {
    cells.push_back(present ? table.KeepText(rows.keys[index].key + " " + rows.path) : Cell());
  };
  const auto add_text = [&](bool present, const std::vector<std::string_view>& texts,
                            size_t index) {
    cells.push_back(present ? table.KeepText(texts[index]) : Cell());
  };
  add_name(has_npu, npu, pair.npu);
  add_name(has_bench, bench, pair.bench);
  add_text(has_npu, npu.dtypes, pair.npu);
  add_text(has_bench, bench.dtypes, pair.bench);
  add_text(has_npu, npu.shapes, pair.npu);
  add_text(has_bench, bench.shapes, pair.bench);
  for (size_t stat = 0; stat < kStatCount; ++stat) {
    cells.push_back(has_npu ? FloatCell(npu.stats[pair.npu][stat]) : Cell());
  }
  for (size_t stat = 0; stat < kStatCount; ++stat) {
    cells.push_back(has_bench ? FloatCell(bench.stats[pair.bench][stat]) : Cell());
  }
  std::string message;
  if (!has_npu || !has_bench) {
    message =
        has_npu ? "The bench side has no such tensor.\n" : "The NPU side has no such tensor.\n";
  } else {
    message = Objections(npu.dtypes[pair.npu], bench.dtypes[pair.bench], npu.shapes[pair.npu],
                         bench.shapes[pair.bench]);
  }
  if (!message.empty()) {
    cells.emplace_back();
    cells.push_back(table.KeepText(message));
    cells.resize(table.columns().size());
    table.AddRow(cells);
    return;
  }
  std::array<float, kStatCount> differences{};
  for (size_t stat = 0; stat < kStatCount; ++stat) {
    differences[stat] = std::fabs(npu.stats[pair.npu][stat] - bench.stats[pair.bench][stat]);
  }
  cells.push_back(Cell::Text(
      MaximaAgree(npu.stats[pair.npu][kMax], bench.stats[pair.bench][kMax], differences[kMax])
          ? "Yes"
          : "No"));
  cells.push_back(Cell::Text(""));
  for (const float difference : differences) {
    cells.push_back(FloatCell(difference));
  }
  for (size_t stat = 0; stat < kStatCount; ++stat) {
    cells.push_back(RelativeCell(differences[stat], bench.stats[pair.bench][stat], table));
  }
  table.AddRow(cells);
}

}  // namespace

Status AppendStatisticRows(const Folder& npu, const Folder& bench, report::Table& table,
                           FolderCounts& counts) {
  MSP_ASSIGN_OR_RETURN(const StatisticRows npu_rows, ReadStatistics(npu));
  MSP_ASSIGN_OR_RETURN(const StatisticRows bench_rows, ReadStatistics(bench));
  std::vector<KernelOutcome> outcomes;
  for (const KernelPair& pair : PairKernels(npu_rows.keys, bench_rows.keys)) {
    AppendStatisticRow(npu_rows, bench_rows, pair, table);
    if (pair.npu == kNoKernel || pair.bench == kNoKernel) {
      ++(pair.npu == kNoKernel ? counts.bench_only : counts.npu_only);
    } else if (npu_rows.shapes[pair.npu] != bench_rows.shapes[pair.bench] ||
               npu_rows.dtypes[pair.npu] != bench_rows.dtypes[pair.bench]) {
      ++counts.shape_mismatch;
    } else {
      std::array<double, kStatCount> n{};
      std::array<double, kStatCount> b{};
      std::copy(npu_rows.stats[pair.npu].begin(), npu_rows.stats[pair.npu].end(), n.begin());
      std::copy(bench_rows.stats[pair.bench].begin(), bench_rows.stats[pair.bench].end(),
                b.begin());
      outcomes.push_back({&npu_rows.keys[pair.npu], FolderDistance(n, b), kTextNoise});
    }
  }
  CountInOrder(std::move(outcomes), counts);
  return OkStatus();
}

namespace {

using report::Table;

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

std::optional<int64_t> ParseIndex(std::string_view text) {
  const std::optional<int64_t> value = base::ParseInt(text);
  return value && *value >= 0 && text.find_first_not_of("0123456789") == std::string_view::npos
             ? value
             : std::nullopt;
}

// Rank and step from ".../rank_0/<graph name>/<graph id>/<step>" or ".../<rank>/<graph name>/<graph
// id>/<step>" or
// ".../<rank>/<graph>/<step>".
std::optional<RankStep> RankStepOf(const std::string& path, std::string& place) {
  const std::vector<std::string_view> segments = base::Split(path, '/');
  const size_t count = segments.size();
  if (count < 4) {
    return std::nullopt;
  }
  const std::optional<int64_t> step = ParseIndex(segments[count - 1]);
  const std::string_view fourth_last = segments[count - 4];
  std::optional<int64_t> rank;
  place = std::string(segments[count - 3]) + "/" + std::string(segments[count - 2]);
  if (path.find("rank_") != std::string::npos) {
    rank = ParseIndex(fourth_last.substr(fourth_last.rfind('_') + 1));
  } else {
    rank = ParseIndex(fourth_last);
    if (!rank) {
      rank = ParseIndex(segments[count - 3]);
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
                         " is not on the bench side");
    } else {
      pairs.emplace_back(&folder.folder, &partner->folder);
    }
  }
  return pairs;
}

Status AppendFolderPair(const Folder& npu, const Folder& bench, base::ThreadPool& pool,
                        std::optional<Table>& table, FolderCounts& counts,
                        std::vector<std::string>& warnings) {
  const KernelFolderKind kind = KindOf(npu);
  if (kind == KernelFolderKind::kNeither) {
    return MismatchError(npu.path.string() + ": holds neither .npy files nor a " +
                         kKernelStatisticFile);
  }
  if (KindOf(bench) != kind) {
    return MismatchError(npu.path.string() + " and " + bench.path.string() +
                         ": one side holds tensors, the other statistics");
  }
  if (!table) {
    table.emplace("Sheet1", KernelColumns(kind));
  } else if (table->columns() != KernelColumns(kind)) {
    return MismatchError(npu.path.string() +
                         ": tensors and statistics cannot share one result table");
  }
  return kind == KernelFolderKind::kArrays
             ? AppendArrayRows(npu, bench, pool, *table, counts, warnings)
             : AppendStatisticRows(npu, bench, *table, counts);
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

}  // namespace

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
      comparison.warnings.push_back(Describe(rank_step) + " is not on the bench side");
      continue;
    }
    std::optional<Table> table;
    FolderCounts counts;
    for (const auto& [npu_folder, bench_folder] :
         PairFolders(rank_step, npu_folders, bench_folders->second, comparison.warnings)) {
      const Status status =
          AppendFolderPair(*npu_folder, *bench_folder, pool, table, counts, comparison.warnings);
      if (!status.ok()) {
        comparison.warnings.push_back(Describe(rank_step) + ": " + status.message());
      }
    }
    if (!table) {
      continue;
    }
    FolderTable result;
    result.name = "compare_result_" + std::to_string(rank_step.first) + "_" +
                  std::to_string(rank_step.second);
    result.styled_header = true;
    const auto parts = HalveRows(table->row_count(), kRowsPerFile);
    for (size_t i = 0; i < parts.size() && parts.size() > 1; ++i) {
      FolderTable slice;
      slice.name = result.name;
      slice.name_end = "_slice_" + std::to_string(i);
      slice.styled_header = true;
      slice.table = CopyRows(*table, parts[i].first, parts[i].second);
      slice.counts = std::exchange(counts, {});  // of all slices, told once
      comparison.tables.push_back(std::move(slice));
    }
    if (parts.size() == 1) {
      result.table = *std::move(table);
      result.counts = std::move(counts);
      comparison.tables.push_back(std::move(result));
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
