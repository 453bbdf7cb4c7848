#include "src/analysis/monitor/analyse/document.h"

#include <utility>

#include <fmt/format.h>

#include "src/analysis/monitor/common/document_parts.h"
#include "src/base/strings.h"

namespace msprobe::analysis::monitor {

report::Document MakeDocument(const AnalyseResult& result) {
  report::Document document;
  document.command = "monitor analyse";
  report::Verdict& verdict = document.verdict;
  verdict.word = result.alerts > 0 ? "ALERTS" : "NO ALERTS";
  verdict.text = fmt::format("Top {} anomalies are listed as follows:", result.top.size());
  verdict.number = static_cast<double>(result.alerts);
  verdict.unit = "alerts";
  verdict.tone = report::Tone::kStrong;
  verdict.standing = result.alerts > 0          ? report::Standing::kFindings
                     : !result.warnings.empty() ? report::Standing::kNothingCompared
                                                : report::Standing::kClean;
  document.levels = report::OutcomesOf(kAnalyseLevels);
  report::SetFound(document.levels, "alert", result.alerts > 0);
  report::TestCase alerts = internal::CaseOf("alerts", "alert", result.alerts, "alert");
  for (const msprobe::monitor::Anomaly& anomaly : result.top) {
    alerts.details += anomaly.message + "\n";
  }
  if (verdict.standing == report::Standing::kNothingCompared) {
    alerts.outcome = report::CaseOutcome::kError;
    alerts.message = result.warnings.front();
  }
  document.cases.push_back(std::move(alerts));
  report::List list{report::ListKind::kNamed, {}};
  for (size_t i = 0; i < result.top.size(); ++i) {
    list.items.push_back({fmt::format("{}", i), result.top[i].message});
  }
  report::List counts{report::ListKind::kSentences,
                      {{"", fmt::format("{} of {}", base::Plural(result.alerts, "alert"),
                                        base::Plural(result.ranks, "rank"))}}};
  report::Section& section = document.sections.emplace_back();
  section.blocks.emplace_back(std::move(list));
  document.sections.push_back({"Counts", {}});
  document.sections.back().blocks.emplace_back(std::move(counts));
  document.files.push_back({result.file});
  document.warnings = result.warnings;
  return document;
}

}  // namespace msprobe::analysis::monitor
