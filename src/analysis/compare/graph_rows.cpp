#include "src/analysis/compare/graph_rows.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "src/analysis/compare/array_pair.h"
#include "src/analysis/compare/result_table.h"
#include "src/base/strings.h"
#include "src/report/readers.h"

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

}  // namespace msprobe::analysis::compare
