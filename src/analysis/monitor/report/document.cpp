#include "src/analysis/monitor/report/document.h"

#include <utility>

#include <fmt/format.h>

#include "src/analysis/monitor/common/document_parts.h"
#include "src/base/strings.h"

namespace msprobe::analysis::monitor {

report::Document MakeDocument(const ReportResult& outcome, const std::filesystem::path& page) {
  report::Document document;
  document.command = "monitor report";
  document.verdict = internal::Written(
      fmt::format("{} of {} series and {}, steps {} to {}: {}, {} not finite; a page of {}",
                  base::Plural(outcome.rows, "row"), base::FormatCount(outcome.series),
                  base::Plural(outcome.ranks, "rank"), outcome.first_step, outcome.last_step,
                  base::Plural(outcome.alerts, "alert"), base::Plural(outcome.non_finite, "number"),
                  base::FormatBytes(outcome.size_bytes)),
      outcome.rows, "rows");
  document.verdict.standing = outcome.alerts + outcome.non_finite > 0 ? report::Standing::kFindings
                                                                      : report::Standing::kClean;
  internal::TellUnread(outcome.unread_files, document.verdict);
  document.levels = report::OutcomesOf(kReportLevels);
  report::SetFound(document.levels, "not_finite", outcome.non_finite > 0);
  report::SetFound(document.levels, "alert", outcome.alerts > 0);
  document.cases.push_back(
      internal::CaseOf("numbers that are not finite", "not_finite", outcome.non_finite, "number"));
  document.cases.push_back(internal::CaseOf("alerts", "alert", outcome.alerts, "alert"));
  document.sections.push_back(
      internal::FiguresSection({{"series", static_cast<double>(outcome.series)},
                                {"ranks", static_cast<double>(outcome.ranks)},
                                {"first step", static_cast<double>(outcome.first_step)},
                                {"last step", static_cast<double>(outcome.last_step)},
                                {"alerts", static_cast<double>(outcome.alerts)},
                                {"not finite", static_cast<double>(outcome.non_finite)},
                                {"bytes", static_cast<double>(outcome.size_bytes)}}));
  document.files.push_back({page});
  document.warnings = outcome.warnings;
  return document;
}

}  // namespace msprobe::analysis::monitor
