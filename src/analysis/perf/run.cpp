#include "src/analysis/perf/run.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/perf/gates.h"
#include "src/analysis/perf/overall_columns.h"
#include "src/analysis/perf/pair_comparison.h"
#include "src/analysis/perf/rank_parts.h"
#include "src/analysis/perf/result_files.h"
#include "src/base/files.h"
#include "src/base/processes.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/base/threads.h"

namespace msprobe::analysis::perf {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using profile::RankPath;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct PlannedPair {
  std::optional<int64_t> rank;
  fs::path base;
  fs::path comparison;
};

struct Plan {
  std::vector<PlannedPair> pairs;
  std::vector<int64_t> base_only;
  std::vector<int64_t> comparison_only;
};

Result<std::vector<RankPath>> FindSide(const fs::path& path, const std::optional<int64_t>& rank) {
  MSP_ASSIGN_OR_RETURN(std::vector<RankPath> found, profile::FindProfiles(path));
  if (!rank.has_value()) {
    return found;
  }
  const auto chosen = std::find_if(found.begin(), found.end(),
                                   [&](const RankPath& known) { return known.rank == rank; });
  if (chosen == found.end()) {
    std::vector<std::string> ranks;
    ranks.reserve(found.size());
    for (const RankPath& known : found) {
      ranks.push_back(known.rank.has_value() ? std::to_string(*known.rank) : "unknown");
    }
    return UsageError(fmt::format("{} holds no rank {}", path.string(), *rank))
        .WithHint(fmt::format("its ranks: {}", base::Join(ranks, ", ")));
  }
  return std::vector<RankPath>{*chosen};
}

// A folder's only profile, or a file, is compared whatever its rank; of several those of equal
// rank.
Result<Plan> PlanPairs(const PairOptions& options) {
  MSP_ASSIGN_OR_RETURN(const auto base, FindSide(options.base, options.base_rank));
  MSP_ASSIGN_OR_RETURN(const auto comparison,
                       FindSide(options.comparison, options.comparison_rank));
  Plan plan;
  if (base.size() == 1 && comparison.size() == 1) {
    // The paths as they were typed stand in the results, unless a folder's one trace is meant.
    plan.pairs.push_back({std::nullopt, base[0].path, comparison[0].path});
    return plan;
  }
  for (const auto& [single, several, path] :
       {std::tuple{&base, &comparison, &options.base},
        std::tuple{&comparison, &base, &options.comparison}}) {
    if (single->size() == 1 && !(*single)[0].rank.has_value()) {
      return UsageError(fmt::format("{} is one profile of unknown rank, the other path holds {}",
                                    path->string(), base::Plural(several->size(), "profile")))
          .WithHint("choose one with --base-rank or --comparison-rank");
    }
  }
  size_t left = 0;
  size_t right = 0;
  while (left < base.size() || right < comparison.size()) {
    if (right == comparison.size() ||
        (left < base.size() && *base[left].rank < *comparison[right].rank)) {
      plan.base_only.push_back(*base[left++].rank);
    } else if (left == base.size() || *comparison[right].rank < *base[left].rank) {
      plan.comparison_only.push_back(*comparison[right++].rank);
    } else {
      plan.pairs.push_back({base[left].rank, base[left].path, comparison[right].path});
      ++left;
      ++right;
    }
  }
  if (plan.pairs.empty()) {
    return MismatchError(fmt::format("{} and {} have no rank in common", options.base.string(),
                                     options.comparison.string()));
  }
  return plan;
}

// Errors after which the other ranks still make sense; a full disk would only repeat.
bool ConcernsThisPairOnly(StatusCode code) {
  return code == StatusCode::kBadFormat || code == StatusCode::kNotFound ||
         code == StatusCode::kUnsupported || code == StatusCode::kMismatch ||
         code == StatusCode::kUsage;
}

class Runner {
 public:
  explicit Runner(const Options& options)
      : options_(options), pool_(options.threads), start_(Clock::now()) {}

  Result<RunResult> Go() {
    MSP_ASSIGN_OR_RETURN(Plan plan, PlanPairs(options_.pair));
    run_.share = base::ShareFromEnvironment();
    MSP_ASSIGN_OR_RETURN(run_.stamp, TakeStamp(options_.output, run_.share));
    run_.reports = run_.share.index == 0;
    run_.summary.base_only = std::move(plan.base_only);
    run_.summary.comparison_only = std::move(plan.comparison_only);
    if (plan.pairs.size() == 1) {
      if (run_.reports) {
        MSP_RETURN_IF_ERROR(RunPair(plan.pairs[0], /*is_single=*/true));
      }
    } else {
      MSP_RETURN_IF_ERROR(RunShare(plan.pairs));
    }
    run_.summary.seconds = SecondsSince(start_);
    return std::move(run_);
  }

 private:
  Status RunShare(const std::vector<PlannedPair>& pairs) {
    const base::ProcessShare& share = run_.share;
    {
      base::Progress progress("comparing", share.CountOf(pairs.size()), "ranks", options_.quiet);
      for (size_t index = 0; index < pairs.size(); ++index) {
        if (!share.Takes(index)) {
          continue;
        }
        Status status = RunPair(pairs[index], /*is_single=*/false);
        if (!status.ok()) {
          if (!ConcernsThisPairOnly(status.code())) {
            return status;
          }
          RankSummary& failed = run_.summary.ranks.emplace_back();
          failed.rank = pairs[index].rank;
          failed.base_path = pairs[index].base.string();
          failed.comparison_path = pairs[index].comparison.string();
          failed.error = status.message();
        }
        progress.Add();
      }
    }
    if (share.count == 1) {
      return {};
    }
    MSP_RETURN_IF_ERROR(DeliverRanks(options_.output, share, run_.summary));
    return share.index == 0 ? Collect(pairs) : Status();
  }

  Status Collect(const std::vector<PlannedPair>& pairs) {
    std::vector<size_t> late;
    MSP_ASSIGN_OR_RETURN(run_.summary.ranks,
                         CollectRanks(options_.output, run_.share, options_.patience, late));
    for (const size_t process : late) {
      const base::ProcessShare share = {process, run_.share.count, run_.share.launch};
      for (size_t index = 0; index < pairs.size(); ++index) {
        if (share.Takes(index)) {
          run_.summary.missing.push_back(*pairs[index].rank);
        }
      }
    }
    std::sort(run_.summary.missing.begin(), run_.summary.missing.end());
    return {};
  }

  Status RunPair(const PlannedPair& pair, bool is_single) {
    const Clock::time_point start = Clock::now();
    PairOptions compare = options_.pair;
    compare.base = pair.base;
    compare.comparison = pair.comparison;
    compare.base_rank.reset();
    compare.comparison_rank.reset();
    compare.whole_texts = options_.formats.csv || options_.formats.json;
    MSP_ASSIGN_OR_RETURN(const PairComparison comparison, ComparePair(compare, pool_));
    RankSummary summary = Summarize(comparison);
    summary.rank = is_single ? std::nullopt : pair.rank;
    summary.base_path = pair.base.string();
    summary.comparison_path = pair.comparison.string();
    for (const Gate& gate : options_.gates) {
      summary.gates.push_back(Judge(gate, comparison));
    }
    MSP_ASSIGN_OR_RETURN(
        const std::vector<fs::path> files,
        WriteResultFiles(comparison, ResultStem(options_.output, run_.stamp.text(), summary.rank),
                         options_.formats, pool_));
    for (const fs::path& file : files) {
      summary.files.push_back(file.string());
    }
    const auto knows = [](const std::optional<OverallTimes>& times) {
      return times.has_value() && times->end_to_end_s > 0;
    };
    if (is_single && comparison.base_times && comparison.comparison_times &&
        (knows(comparison.base_times) || knows(comparison.comparison_times))) {
      run_.overall = OverallColumns(comparison);
    }
    summary.seconds = SecondsSince(start);
    run_.summary.ranks.push_back(std::move(summary));
    return {};
  }

  const Options& options_;
  base::ThreadPool pool_;
  const Clock::time_point start_;
  RunResult run_;
};

}  // namespace

Result<RunResult> Run(const Options& options) { return Runner(options).Go(); }

}  // namespace msprobe::analysis::perf
