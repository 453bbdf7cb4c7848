#include "src/analysis/compare/line26/difference_run.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/output_files.h"

namespace msprobe::analysis::compare {
namespace {

// "rank 2: Torch.add.0.forward"; of many, the first few.
std::string Named(const std::vector<RankCalls>& ranks, const std::vector<FirstDifference>& found) {
  constexpr size_t kShown = 3;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, found.size()); ++i) {
    const RankCalls& rank = ranks[found[i].rank];
    text +=
        fmt::format("{}rank {}: {}", i == 0 ? "" : "; ", rank.rank, rank.calls[found[i].call].name);
  }
  return found.size() > kShown ? text + fmt::format(" and {} more", found.size() - kShown) : text;
}

}  // namespace

Status DifferenceRun::Add(const PlannedPair& plan, const ComparedPair& pair,
                          std::vector<std::filesystem::path>& files) {
  RankRecord record = RecordRank(pair, plan.input.rank.value_or(0));
  const std::filesystem::path folder = base::Below(output_folder_, plan.result_subfolder);
  MSP_RETURN_IF_ERROR(base::CreateFolders(folder));
  files.push_back(folder / fmt::format("compare_result_rank{}_{}.json", record.calls.rank, stamp_));
  MSP_RETURN_IF_ERROR(base::WriteFileAtomically(files.back(), record.json));
  if (steps_.empty() || steps_.back().folder != plan.result_subfolder) {
    steps_.push_back({plan.result_subfolder, {}});
  }
  steps_.back().ranks.push_back(std::move(record.calls));
  return OkStatus();
}

Status DifferenceRun::Finish(std::vector<std::string>& answers,
                             std::vector<std::filesystem::path>& files) const {
  for (const Step& step : steps_) {
    const std::string place = step.folder.empty() ? "" : step.folder.string() + ": ";
    const std::vector<FirstDifference> found = FindFirstDifferences(step.ranks);
    if (found.empty()) {
      answers.push_back(
          place + "First difference over the ranks: none, no output differs by more than half");
      continue;
    }
    const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::system_clock::now().time_since_epoch());
    const std::filesystem::path file =
        base::Below(output_folder_, step.folder) / fmt::format("diff_analyze_{}.json", now.count());
    MSP_RETURN_IF_ERROR(base::WriteFileAtomically(file, FirstDifferenceJson(step.ranks, found)));
    files.push_back(file);
    answers.push_back(fmt::format("{}First difference over the ranks: {} ({})", place,
                                  Named(step.ranks, found), file.string()));
  }
  return OkStatus();
}

}  // namespace msprobe::analysis::compare
