#include "src/analysis/perf/rank_parts.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "src/analysis/perf/summary_json.h"

namespace msprobe::analysis::perf {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCommand = "perf_compare";

}  // namespace

Status DeliverRanks(const fs::path& output, const base::ProcessShare& share,
                    const RunSummary& summary) {
  return base::DeliverPart(base::PartsFolder(output, kCommand, share), share,
                           SummaryJson(summary, 0));
}

Result<std::vector<RankSummary>> CollectRanks(const fs::path& output,
                                              const base::ProcessShare& share,
                                              std::chrono::seconds patience,
                                              std::vector<size_t>& late) {
  MSP_ASSIGN_OR_RETURN(
      const std::vector<base::Part> parts,
      base::CollectParts(base::PartsFolder(output, kCommand, share), share, patience, late));
  std::vector<RankSummary> ranks;
  for (const base::Part& part : parts) {
    MSP_ASSIGN_OR_RETURN(std::vector<RankSummary> found, ParseRanks(part.text), part.file.string());
    std::move(found.begin(), found.end(), std::back_inserter(ranks));
  }
  std::sort(ranks.begin(), ranks.end(),
            [](const RankSummary& a, const RankSummary& b) { return a.rank < b.rank; });
  return ranks;
}

}  // namespace msprobe::analysis::perf
