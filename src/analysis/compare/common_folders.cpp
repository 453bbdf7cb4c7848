#include "src/analysis/compare/common_folders.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/compare/array_pair.h"
#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/result_table.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"

namespace msprobe::analysis::compare {
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
  std::map<std::string, std::string> bench_names(options.common_map.begin(),
                                                 options.common_map.end());
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

}  // namespace msprobe::analysis::compare
