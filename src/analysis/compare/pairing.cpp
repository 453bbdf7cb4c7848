// Pairs the rank folders of two dumps.
//
// Folders pair by (step, rank); a number that only one value has on each side does not count, so
// that step 0 of one run can be compared with step 5 of another. With v26, ranks without any
// common number pair by position. Folders without a partner are listed. Every pair gets the
// names that its result files carry.
#include "src/analysis/compare/pairing.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/dump/layout.h"

namespace msprobe::analysis::compare {
namespace {

using dump::DumpLayout;
using dump::RankFolder;

// -1 stands for "without a number".
using StepRank = std::pair<int64_t, int64_t>;

constexpr int64_t kUnnumbered = -1;

std::string PlaceText(const RankFolder& folder) {
  std::string text;
  if (folder.step) {
    text = fmt::format("step{}/", *folder.step);
  }
  if (folder.process) {
    return text + fmt::format("proc{}", *folder.process);
  }
  return text + (folder.rank ? fmt::format("rank{}", *folder.rank) : std::string("rank"));
}

size_t CountDistinct(const DumpLayout& layout, std::optional<int64_t> RankFolder::*number) {
  std::set<std::optional<int64_t>> seen;
  for (const RankFolder& folder : layout.ranks) {
    seen.insert(folder.*number);
  }
  return seen.size();
}

bool HasOne(const DumpLayout& npu, const DumpLayout& bench,
            std::optional<int64_t> RankFolder::*number) {
  return CountDistinct(npu, number) == 1 && CountDistinct(bench, number) == 1;
}

class Planner {
 public:
  Planner(const DumpLayout& npu, const DumpLayout& bench, Edition edition)
      : edition_(edition),
        npu_(npu),
        bench_(bench),
        ignore_step_(HasOne(npu, bench, &RankFolder::step)),
        ignore_rank_(HasOne(npu, bench, &RankFolder::rank)),
        name_ranks_(!ignore_rank_ || (npu.ranks.size() == 1 && IsAboveRank(npu))) {}

  PairingPlan Plan() {
    if (edition_ == Edition::kV26) {
      NumberByPosition();
    }
    std::map<StepRank, const RankFolder*> bench_folders;
    for (const RankFolder& folder : bench_.ranks) {
      bench_folders[KeyOf(folder)] = &folder;
    }
    PairingPlan plan;
    for (const RankFolder& folder : npu_.ranks) {
      const auto found = bench_folders.find(KeyOf(folder));
      if (found == bench_folders.end()) {
        plan.npu_only.push_back(PlaceText(folder));
        continue;
      }
      AddPairs(folder, *found->second, plan);
      bench_folders.erase(found);
    }
    for (const auto& [key, folder] : bench_folders) {
      plan.bench_only.push_back(PlaceText(*folder));
    }
    return plan;
  }

 private:
  // The path names a folder above the rank folders: result files then carry the rank, as a
  // multi-rank compare's do.
  static bool IsAboveRank(const DumpLayout& layout) {
    return !layout.is_single_file && layout.ranks[0].folder != layout.root;
  }

  StepRank KeyOf(const RankFolder& folder) const {
    const auto renamed = renamed_.find(&folder);
    const std::optional<int64_t>& rank =
        renamed == renamed_.end() ? folder.rank : renamed->second->rank;
    return {ignore_step_ ? 0 : folder.step.value_or(kUnnumbered),
            ignore_rank_ ? 0 : rank.value_or(kUnnumbered)};
  }

  // Jobs on other cards: ranks 2 and 3 here are ranks 0 and 1 there.
  void NumberByPosition() {
    const size_t count = npu_.ranks.size();
    if (ignore_rank_ || !ignore_step_ || count != bench_.ranks.size()) {
      return;
    }
    for (const RankFolder& npu : npu_.ranks) {
      for (const RankFolder& bench : bench_.ranks) {
        if (npu.rank == bench.rank) {
          return;
        }
      }
    }
    for (size_t i = 0; i < count; ++i) {
      renamed_[&bench_.ranks[i]] = &npu_.ranks[i];
    }
  }

  void AddPairs(const RankFolder& npu, const RankFolder& bench, PairingPlan& plan) const {
    const auto add = [&](const char* file_name, bool is_debug) {
      PlannedPair pair;
      pair.input = {npu.folder / file_name, bench.folder / file_name, npu.step, npu.rank,
                    bench.step};
      pair.is_debug = is_debug;
      if (npu.process) {
        pair.rank_suffix = fmt::format("_proc{}", *npu.process);
      } else if (name_ranks_) {
        pair.rank_suffix = npu.rank ? fmt::format("_rank{}", *npu.rank) : std::string("_rank");
      }
      if (!ignore_step_) {
        pair.result_subfolder = npu.step ? fmt::format("step{}", *npu.step) : std::string("step");
      }
      plan.pairs.push_back(std::move(pair));
    };
    if (npu.has_dump && bench.has_dump) {
      add(dump::kDumpFileName, false);
    }
    if (npu.has_debug && bench.has_debug) {
      add(dump::kDebugFileName, true);
    }
    if (npu.has_dump != bench.has_dump || npu.has_debug != bench.has_debug) {
      const bool npu_has_more = npu.has_dump > bench.has_dump || npu.has_debug > bench.has_debug;
      (npu_has_more ? plan.npu_only : plan.bench_only)
          .push_back(PlaceText(npu) + " (one of dump.json, debug.json)");
    }
  }

  const Edition edition_;
  const DumpLayout& npu_;
  const DumpLayout& bench_;
  std::map<const RankFolder*, const RankFolder*>
      renamed_;  // bench folders that take a rank's place
  const bool ignore_step_;
  const bool ignore_rank_;
  const bool name_ranks_;
};

// Processes have no number that both sides share: one per side and step can pair, several cannot.
Status CheckProcesses(const DumpLayout& layout) {
  for (size_t i = 1; i < layout.ranks.size(); ++i) {
    const RankFolder& folder = layout.ranks[i];
    if (folder.process && layout.ranks[i - 1].step == folder.step) {
      return UsageError(
                 fmt::format("{} holds several process folders; cannot tell which belong together",
                             folder.folder.parent_path().string()))
          .WithHint("name one process folder on each side");
    }
  }
  return OkStatus();
}

Result<PairingPlan> PlanFilePair(const DumpLayout& npu, const DumpLayout& bench) {
  if (npu.single_file_name != bench.single_file_name) {
    return UsageError(
        fmt::format("{} can only be compared with a file of the same name, not with {}",
                    npu.single_file_name, bench.single_file_name));
  }
  PairingPlan plan;
  PlannedPair pair;
  const RankFolder& npu_rank = npu.ranks[0];
  const RankFolder& bench_rank = bench.ranks[0];
  pair.input = {npu_rank.folder / npu.single_file_name, bench_rank.folder / bench.single_file_name,
                npu_rank.step, npu_rank.rank, bench_rank.step};
  pair.is_debug = npu.single_file_name == dump::kDebugFileName;
  plan.pairs.push_back(std::move(pair));
  return plan;
}

Result<PairingPlan> PlanDumps(const std::filesystem::path& npu_path,
                              const std::filesystem::path& bench_path, Edition edition) {
  MSP_ASSIGN_OR_RETURN(const DumpLayout npu, dump::FindDump(npu_path));
  MSP_ASSIGN_OR_RETURN(const DumpLayout bench, dump::FindDump(bench_path));
  if (npu.is_single_file && bench.is_single_file) {
    return PlanFilePair(npu, bench);
  }
  if (npu.is_single_file != bench.is_single_file) {
    return UsageError("one path is a file, the other a folder")
        .WithHint("name two files or two folders");
  }
  MSP_RETURN_IF_ERROR(CheckProcesses(npu));
  MSP_RETURN_IF_ERROR(CheckProcesses(bench));
  PairingPlan plan = Planner(npu, bench, edition).Plan();
  if (plan.pairs.empty()) {
    return NotFoundError(fmt::format(
        "no step and rank of {} has a partner in {} (test: {}; reference: {})", npu_path.string(),
        bench_path.string(), base::Join(plan.npu_only, ", "), base::Join(plan.bench_only, ", ")));
  }
  return plan;
}

}  // namespace

Result<PairingPlan> PlanPairs(const std::filesystem::path& npu_path,
                              const std::filesystem::path& bench_path, Edition edition) {
  PairingPlan all;
  bool mixed = false;
  for (const char* kind : {"graph", "pynative"}) {
    const std::filesystem::path npu = npu_path / kind;
    const std::filesystem::path bench = bench_path / kind;
    if (edition != Edition::kV26 || !base::IsFolder(npu) || !base::IsFolder(bench)) {
      continue;
    }
    mixed = true;
    MSP_ASSIGN_OR_RETURN(PairingPlan plan, PlanDumps(npu, bench, edition));
    for (PlannedPair& pair : plan.pairs) {
      pair.result_subfolder =
          std::filesystem::path(kind) /
          (pair.input.step ? fmt::format("step{}", *pair.input.step) : std::string());
      all.pairs.push_back(std::move(pair));
    }
    const auto add = [&](const std::vector<std::string>& places, std::vector<std::string>& to) {
      for (const std::string& place : places) {
        to.push_back(std::string(kind) + "/" + place);
      }
    };
    add(plan.npu_only, all.npu_only);
    add(plan.bench_only, all.bench_only);
  }
  return mixed ? all : PlanDumps(npu_path, bench_path, edition);
}

}  // namespace msprobe::analysis::compare
