#include "src/analysis/graph/load.h"

#include <utility>

#include <fmt/format.h>

#include "src/analysis/compare/layer_mapping.h"
#include "src/analysis/graph/rank_view.h"
#include "src/analysis/graph/scores.h"
#include "src/base/progress.h"

namespace msprobe::analysis::graph {
namespace {

void AppendWarnings(const std::vector<std::string>& more, std::vector<std::string>& all) {
  all.insert(all.end(), more.begin(), more.end());
}

// So that they are told once, whoever looks at the side later.
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

// What both sides are for each other; they are read.
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
