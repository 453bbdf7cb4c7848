#include "src/analysis/compare/graph_folders.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "src/analysis/compare/graph_rows.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/report/sheet_parts.h"
#include "src/report/writers.h"

namespace msprobe::analysis::compare {
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
    if (rank_step && (!options.rank_ids || Wanted(*options.rank_ids, rank_step->first)) &&
        Wanted(options.step_ids, rank_step->second)) {
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
