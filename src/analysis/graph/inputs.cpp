#include "src/analysis/graph/inputs.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/compare/mapping.h"
#include "src/analysis/graph/match.h"
#include "src/analysis/graph/step_views.h"
#include "src/base/files.h"
#include "src/base/progress.h"
#include "src/dump/layout.h"

namespace msprobe::analysis::graph {
namespace {

namespace fs = std::filesystem;

enum class FolderKind : uint8_t { kRank, kStep, kDump };

constexpr std::string_view kKindNames[] = {"a rank's folder", "a step with folders of ranks",
                                           "a dump with folders of steps"};

using NumberedFolders = std::map<int64_t, fs::path>;

struct Folder {
  FolderKind kind = FolderKind::kRank;
  NumberedFolders parts;  // ranks or steps
};

Result<Folder> LookInto(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    return NotFoundError(fmt::format("{} is not a folder", path.string()))
        .WithHint("name the folder of a rank, of a step or of a whole dump");
  }
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(path));
  if (names.empty()) {
    return NotFoundError(fmt::format("{} is empty", path.string()));
  }
  std::vector<std::string> folders;
  std::copy_if(names.begin(), names.end(), std::back_inserter(folders),
               [&](const std::string& name) { return fs::is_directory(path / name, error); });
  Folder folder;
  if (folders.empty() ||
      std::find(names.begin(), names.end(), dump::kTensorFolderName) != names.end() ||
      fs::exists(path / dump::kDumpFileName, error)) {
    return folder;
  }
  if (folders.size() == 1 && (folders[0] == "rank" || dump::ParseProcessName(folders[0]).valid)) {
    folder.kind = FolderKind::kStep;
    folder.parts.emplace(0, path / folders[0]);
    return folder;
  }
  const auto take = [&](auto parse, FolderKind kind) {
    NumberedFolders parts;
    for (const std::string& name : folders) {
      const dump::NumberedName numbered = parse(name);
      if (!numbered.valid || !numbered.number) {
        return false;
      }
      parts.emplace(*numbered.number, path / name);
    }
    folder.kind = kind;
    folder.parts = std::move(parts);
    return true;
  };
  if (take(dump::ParseRankName, FolderKind::kStep) ||
      take(dump::ParseStepName, FolderKind::kDump)) {
    return folder;
  }
  return NotFoundError(fmt::format("{} holds folders with other names than rank<N> or step<N>: {}",
                                   path.string(), folders.front()))
      .WithHint("name the folder of a rank, of a step or of a whole dump, with nothing else in it");
}

class Planner {
 public:
  explicit Planner(bool with_bench) : with_bench_(with_bench) {}

  Status Plan(const fs::path& npu_path, const fs::path& bench_path, int64_t step, bool below_step) {
    MSP_ASSIGN_OR_RETURN(const Folder npu, LookInto(npu_path));
    Folder bench;
    if (with_bench_) {
      MSP_ASSIGN_OR_RETURN(bench, LookInto(bench_path));
      if (bench.kind != npu.kind) {
        return MismatchError(fmt::format(
            "the directory structures of npu_path and bench_path are inconsistent: {} is {}, {} is "
            "{}",
            npu_path.string(), kKindNames[static_cast<size_t>(npu.kind)], bench_path.string(),
            kKindNames[static_cast<size_t>(bench.kind)]));
      }
    }
    if (below_step && npu.kind == FolderKind::kDump) {
      return NotFoundError(fmt::format("{} holds steps below a step", npu_path.string()));
    }
    if (npu.kind == FolderKind::kRank) {
      plan_.ranks.push_back({step, 0, npu_path, bench_path});
      return {};
    }
    const auto parts = Common(npu.parts, bench.parts);
    if (parts.empty()) {
      return MismatchError(fmt::format("{} and {} have no {} in common", npu_path.string(),
                                       bench_path.string(),
                                       npu.kind == FolderKind::kStep ? "rank" : "step"));
    }
    for (const auto& [number, paths] : parts) {
      if (npu.kind == FolderKind::kStep) {
        plan_.has_ranks = true;
        plan_.ranks.push_back({step, number, paths.first, paths.second});
      } else {
        plan_.has_steps = true;
        MSP_RETURN_IF_ERROR(Plan(paths.first, paths.second, number, /*below_step=*/true));
      }
    }
    return {};
  }

  InputPlan Take() { return std::move(plan_); }

 private:
  // Folders of both sides; for a build those of the only side.
  std::vector<std::pair<int64_t, std::pair<fs::path, fs::path>>> Common(
      const NumberedFolders& npu, const NumberedFolders& bench) {
    std::vector<std::pair<int64_t, std::pair<fs::path, fs::path>>> common;
    for (const auto& [number, path] : npu) {
      const auto other = bench.find(number);
      if (with_bench_ && other == bench.end()) {
        plan_.npu_only.push_back(path.string());
        plan_.warnings.push_back(
            fmt::format("{} is left out: the reference has none", path.string()));
        continue;
      }
      common.push_back({number, {path, with_bench_ ? other->second : fs::path()}});
    }
    for (const auto& [number, path] : bench) {
      if (!npu.contains(number)) {
        plan_.bench_only.push_back(path.string());
        plan_.warnings.push_back(fmt::format("{} is left out: the test has none", path.string()));
      }
    }
    return common;
  }

  const bool with_bench_;
  InputPlan plan_;
};

}  // namespace

Result<InputPlan> FindInputs(const fs::path& npu, const fs::path& bench) {
  Planner planner(!bench.empty());
  MSP_RETURN_IF_ERROR(planner.Plan(npu, bench, 0, /*below_step=*/false));
  return planner.Take();
}

namespace {

void AppendWarnings(const std::vector<std::string>& more, std::vector<std::string>& all) {
  all.insert(all.end(), more.begin(), more.end());
}

// So that they are reported once, whoever looks at the side later.
void TakeWarnings(compare::Side& side, std::vector<std::string>& warnings) {
  AppendWarnings(side.warnings, warnings);
  side.warnings.clear();
}

void MapNames(const Options& options, LoadedRank& rank, std::vector<std::string>& warnings) {
  const compare::Side& npu = rank.npu->side();
  const compare::Side& bench = rank.bench->side();
  const auto partners = compare::PairEntriesByLayer(options.layer_mapping.file,
                                                    /*grouped_frames=*/false, npu, bench, warnings);
  if (!partners.ok()) {
    warnings.push_back("no layer mapping is used: " + partners.status().message());
    return;
  }
  rank.mapping.emplace();
  for (size_t entry = 0; entry < partners->size(); ++entry) {
    const uint32_t partner = (*partners)[entry];
    if (partner != compare::kNoPartnerEntry) {
      rank.mapping->emplace(npu.entries[entry].name, bench.entries[partner].name);
    }
  }
}

// Mode and mapping of two sides that have been read.
Status JoinSides(const Options& options, LoadedRank& rank, std::vector<std::string>& warnings) {
  TakeWarnings(rank.npu->side(), warnings);
  if (!rank.bench) {
    return {};
  }
  TakeWarnings(rank.bench->side(), warnings);
  MSP_ASSIGN_OR_RETURN(rank.mode, ModeOf(rank.npu->side(), rank.bench->side()));
  if (rank.npu->side().framework != rank.bench->side().framework && !options.layer_mapping.given) {
    return MismatchError(fmt::format("{} and {} were recorded with different frameworks",
                                     rank.folders.npu.string(), rank.folders.bench.string()))
        .WithHint("-lm pairs the layers of two frameworks");
  }
  if (options.layer_mapping.given) {
    MapNames(options, rank, warnings);
  }
  return {};
}

Status LoadDump(const std::filesystem::path& folder, const RankDump::KeepEntry& keep_entry,
                std::optional<RankDump>& side) {
  MSP_ASSIGN_OR_RETURN(side, RankDump::Load(folder, keep_entry));
  return {};
}

}  // namespace

Status TasksDiffer(const LoadedRank& rank, const LoadedRank& other) {
  return MismatchError(fmt::format("the ranks of step {} were dumped with different tasks: rank {} "
                                   "is of task {}, rank {} of {}",
                                   rank.folders.step, rank.folders.rank, TaskName(rank.mode),
                                   other.folders.rank, TaskName(other.mode)))
      .WithHint("name the folders of ranks of one task at a time");
}

uint64_t LoadedStep::SizeBytes() const {
  uint64_t bytes = 0;
  for (const LoadedRank& rank : ranks) {
    bytes += rank.npu->side().header.size_bytes;
    bytes += rank.bench ? rank.bench->side().header.size_bytes : 0;
  }
  return bytes;
}

Result<LoadedStep> LoadStep(std::span<const RankFolders> folders, const Options& options,
                            const RankDump::KeepEntry& keep_entry, base::ThreadPool& pool) {
  std::vector<LoadedRank> loaded(folders.size());
  const size_t sides = options.bench_path.empty() ? 1 : 2;
  std::vector<Status> statuses(folders.size() * sides);
  base::Progress progress("reading", statuses.size(), "dumps", options.quiet);
  pool.ParallelFor(statuses.size(), [&](size_t item, size_t /*worker*/) {
    LoadedRank& rank = loaded[item / sides];
    const RankFolders& found = folders[item / sides];
    const bool is_npu = item % sides == 0;
    statuses[item] =
        LoadDump(is_npu ? found.npu : found.bench, keep_entry, is_npu ? rank.npu : rank.bench);
    progress.Add();
  });
  LoadedStep step;
  for (size_t place = 0; place < loaded.size(); ++place) {
    LoadedRank& rank = loaded[place];
    rank.folders = folders[place];
    Status status = std::move(statuses[place * sides]);
    if (status.ok() && sides == 2) {
      status = std::move(statuses[place * sides + 1]);
    }
    if (status.ok()) {
      status = JoinSides(options, rank, step.warnings);
    }
    if (!status.ok()) {
      step.first_error = step.first_error.ok() ? status : step.first_error;
      step.warnings.push_back(fmt::format("step {} rank {} is left out: {}", rank.folders.step,
                                          rank.folders.rank, status.message()));
      continue;
    }
    if (!step.ranks.empty() && step.ranks.front().mode != rank.mode) {
      return TasksDiffer(step.ranks.front(), rank);
    }
    step.ranks.push_back(std::move(rank));
  }
  return step;
}

}  // namespace msprobe::analysis::graph
