#include "src/analysis/compare/merge/document.h"

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::analysis::compare::merge {

report::Document MakeDocument(const Summary& run) {
  report::Document document;
  document.command = "merge_result";
  const bool whole = run.dropped_ranks == 0;
  report::Verdict& verdict = document.verdict;
  verdict.word = whole ? "MERGED" : "MERGED IN PART";
  verdict.text = fmt::format(
      "{}: {}, {} each, {}{}", verdict.word, base::Plural(run.rank_count, "rank"),
      base::Plural(run.row_count, "row"), base::Plural(run.metrics.size(), "metric"),
      whole ? "" : fmt::format("; {} left out", base::Plural(run.dropped_ranks, "rank")));
  verdict.number = static_cast<double>(run.rank_count);
  verdict.unit = "ranks";
  verdict.tone = whole ? report::Tone::kStrong : report::Tone::kBad;
  // The workbook holds what could be merged; a rank that is missing in it is no success.
  verdict.standing = whole ? report::Standing::kClean : report::Standing::kIncomplete;
  report::List metrics{report::ListKind::kBullets, {}};
  for (const std::string& metric : run.metrics) {
    metrics.items.push_back({"", metric});
  }
  document.sections.push_back({"Metrics, a sheet each", {}});
  document.sections.back().blocks.emplace_back(std::move(metrics));
  document.files.push_back({run.result_file});
  document.warnings = run.warnings;
  return document;
}

}  // namespace msprobe::analysis::compare::merge
