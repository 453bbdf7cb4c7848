#include "src/analysis/nan/run.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/nan/finding.h"
#include "src/analysis/nan/rank_folders.h"
#include "src/analysis/nan/result_files.h"
#include "src/analysis/overflow/run.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/dump/layout.h"

namespace msprobe::analysis::nan {
namespace {

using Clock = std::chrono::steady_clock;

// Ranks are read side by side. One that cannot be read is a warning, as long as there are others.
Status LoadRanks(const StepFolder& folder, const Options& options, base::ThreadPool& pool,
                 StepAnswer& answer) {
  std::vector<std::optional<Result<RankDump>>> loaded(folder.ranks.size());
  base::Progress progress("reading", folder.ranks.size(), "ranks", options.quiet);
  LoadOptions load;
  load.threshold = options.threshold;
  pool.ParallelFor(folder.ranks.size(), [&](size_t place, size_t /*worker*/) {
    loaded[place].emplace(LoadRank(folder.ranks[place].rank, folder.ranks[place].folder, load));
    progress.Add(1, loaded[place]->ok() ? (**loaded[place]).size_bytes : 0);
  });
  Status first_error;
  for (size_t place = 0; place < loaded.size(); ++place) {
    Result<RankDump>& rank = *loaded[place];
    if (!rank.ok()) {
      answer.warnings.push_back(fmt::format("rank {} is left out: {}", folder.ranks[place].rank,
                                            rank.status().message()));
      ++answer.unread_ranks;
      if (first_error.ok()) {
        first_error = rank.status();
      }
      continue;
    }
    for (const std::string& warning : rank->warnings) {
      answer.warnings.push_back(fmt::format("rank {}: {}", rank->rank, warning));
    }
    answer.operator_count += rank->operator_count;
    answer.size_bytes += rank->size_bytes;
    answer.ranks.push_back(*std::move(rank));
  }
  return answer.ranks.empty() ? first_error : Status();
}

void Choose(const Options& options, StepAnswer& answer) {
  ResolveContainers(answer.ranks, answer.search);
  const bool found = !answer.search.origins.empty();
  answer.outcome = found                         ? Outcome::kFound
                   : !answer.search.weak.empty() ? Outcome::kEntered
                                                 : Outcome::kGood;
  const bool recorded = std::any_of(answer.ranks.begin(), answer.ranks.end(),
                                    [](const RankDump& rank) { return rank.has_statistics; });
  if (answer.outcome == Outcome::kGood) {
    const bool whole =
        answer.unread_ranks == 0 &&
        std::all_of(answer.ranks.begin(), answer.ranks.end(), [](const RankDump& rank) {
          return rank.operator_count > 0 && !rank.truncated && rank.damaged == 0;
        });
    answer.outcome = !recorded ? Outcome::kNothing : whole ? Outcome::kGood : Outcome::kPartial;
    return;
  }
  const std::vector<Origin>& candidates = found ? answer.search.origins : answer.search.weak;
  if (found) {
    answer.reported = ReportedOrigins(answer.ranks, candidates);
  } else {
    answer.reported.push_back(candidates.front());
  }
  answer.propagation = Follow(answer.ranks, answer.reported, answer.search.arrivals);
  std::vector<Origin> shown = answer.reported;
  const auto is_shown = [&](const Origin& origin) {
    return std::any_of(shown.begin(), shown.end(), [&](const Origin& known) {
      return known.rank_place == origin.rank_place && known.operator_place == origin.operator_place;
    });
  };
  for (const Origin& origin : candidates) {
    if (shown.size() >= options.top) {
      break;
    }
    if (!is_shown(origin)) {
      shown.push_back(origin);
    }
  }
  answer.findings = Describe(answer.ranks, shown, answer.warnings);
  for (size_t i = 0; i < answer.reported.size(); ++i) {
    answer.findings[i].reported = true;
  }
}

constexpr int64_t kMostRecords = 16;  // of a step; later ones follow from them

// The records of a step's devices lie beside its ranks: step0/<time>/<device>/.
void NoteOverflows(StepAnswer& answer) {
  std::filesystem::path folder = answer.folder;
  const std::string name = std::filesystem::absolute(folder).lexically_normal().filename().string();
  if (dump::ParseRankName(name).valid) {
    folder = folder / "..";
  }
  if (!overflow::HoldsRecords(folder)) {
    return;
  }
  overflow::Options options;
  options.dumps = folder;
  options.calls = answer.folder;
  options.most = kMostRecords;
  Result<overflow::Findings> findings = overflow::Run(options);
  if (!findings.ok()) {
    answer.warnings.push_back(findings.status().message());
    return;
  }
  answer.device = *std::move(findings);
  for (const auto& [path, status] : answer.device.unreadable) {
    answer.warnings.push_back(fmt::format("{}: {}", path.string(), status.message()));
  }
  for (const std::string& warning : answer.device.warnings) {
    answer.warnings.push_back(warning);
  }
}

Result<StepAnswer> AnalyzeStep(const StepFolder& folder, const Options& options,
                               base::ThreadPool& pool) {
  const Clock::time_point start = Clock::now();
  StepAnswer answer;
  answer.folder = folder.folder;
  answer.step = folder.step;
  answer.warnings = folder.warnings;
  MSP_RETURN_IF_ERROR(LoadRanks(folder, options, pool, answer));
  answer.search = Search(answer.ranks, {options.mask_aware});
  CompareRecomputed(answer.ranks, answer.search);
  for (std::string& warning : answer.search.warnings) {
    answer.warnings.push_back(std::move(warning));
  }
  Choose(options, answer);
  NoteOverflows(answer);
  if (options.levels) {
    MSP_ASSIGN_OR_RETURN(answer.levels, JudgeRanks(answer.ranks, pool));
  }
  answer.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return answer;
}

}  // namespace

std::string_view OutcomeName(Outcome outcome) {
  constexpr std::array<std::string_view, 5> kNames = {"good", "found", "entered", "incomplete",
                                                      "nothing_searched"};
  return kNames[static_cast<size_t>(outcome)];
}

Result<Answer> Run(const Options& options) {
  base::ThreadPool pool(options.threads);
  std::vector<StepFolder> steps;
  if (options.all_steps) {
    MSP_ASSIGN_OR_RETURN(steps, FindSteps(options.input));
  } else {
    MSP_ASSIGN_OR_RETURN(StepFolder step, FindStep(options.input));
    steps.push_back(std::move(step));
  }
  Answer answer;
  bool all_whole = true;
  for (const StepFolder& folder : steps) {
    if (&folder != &steps.front()) {
      answer.good_steps.push_back(answer.step.folder.string());
      all_whole = all_whole && answer.step.outcome == Outcome::kGood;
    }
    MSP_ASSIGN_OR_RETURN(answer.step, AnalyzeStep(folder, options, pool));
    if (answer.step.outcome == Outcome::kFound || answer.step.outcome == Outcome::kEntered) {
      break;
    }
  }
  if (!all_whole && answer.step.outcome == Outcome::kGood) {
    answer.step.outcome = Outcome::kPartial;
  }
  MSP_RETURN_IF_ERROR(WriteResultFiles(options, answer.step));
  return answer;
}

}  // namespace msprobe::analysis::nan
