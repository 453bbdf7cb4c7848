#include "src/analysis/isolate/document.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/report/number_text.h"

namespace msprobe::analysis::isolate {
namespace {

using report::Cell;
using report::List;
using report::ListKind;

constexpr size_t kShownReasons = 5;

// Tables that may hold a guilty module: those that cannot be read, and those of processes that
// ended within the step.
uint64_t UnseenTables(const Verdicts& verdicts) {
  return verdicts.unreadable + verdicts.unfinished.size();
}

report::Verdict MakeVerdict(const Verdicts& verdicts) {
  report::Verdict verdict;
  verdict.number = static_cast<double>(verdicts.guilty.size());
  verdict.unit = "modules";
  if (verdicts.comparisons == 0) {
    verdict.word = "NOTHING JUDGED";
    verdict.text = "NOTHING JUDGED: no call of a module was held against the reference";
    verdict.tone = report::Tone::kCaution;
    verdict.standing = report::Standing::kNothingCompared;
  } else if (verdicts.guilty.empty() && UnseenTables(verdicts) > 0) {
    verdict.word = "CLEAN IN PART";
    verdict.text = fmt::format(
        "CLEAN IN PART: none of {} that could be read computes wrong by itself, but {} could not "
        "be read or {} not complete",
        base::Plural(verdicts.modules, "module"), base::Plural(UnseenTables(verdicts), "table"),
        UnseenTables(verdicts) == 1 ? "is" : "are");
    verdict.tone = report::Tone::kCaution;
    verdict.standing = report::Standing::kFindings;
  } else if (verdicts.guilty.empty()) {
    verdict.word = "CLEAN";
    verdict.text = fmt::format("CLEAN: none of {} computes wrong by itself",
                               base::Plural(verdicts.modules, "module"));
    verdict.tone = report::Tone::kGood;
  } else {
    verdict.word = "GUILTY";
    verdict.text = fmt::format("GUILTY: {} of {} compute{} wrong on the reference's own inputs",
                               base::FormatCount(verdicts.guilty.size()),
                               base::Plural(verdicts.modules, "module"),
                               verdicts.guilty.size() == 1 ? "s" : "");
    verdict.tone = report::Tone::kBad;
    verdict.standing = report::Standing::kFindings;
  }
  return verdict;
}

// "inf" where a number cannot say it.
Cell NumberOrText(report::Table& table, double value) {
  return std::isfinite(value) ? Cell::Number(value) : table.KeepText(report::NumberText(value));
}

report::DataTable GuiltyTable(const std::vector<Guilty>& guilty) {
  report::Table table("guilty", {"Module", "Class", "Factor", "Error", "Floor", "Direction",
                                 "Where_most", "Cause", "Ranks", "Call"});
  for (const Guilty& item : guilty) {
    table.AddRow(std::vector<Cell>{
        table.KeepText(item.module), table.KeepText(item.kind), NumberOrText(table, item.factor),
        NumberOrText(table, item.error), NumberOrText(table, item.floor),
        Cell::Text(item.forward && item.backward ? "both"
                   : item.forward                ? "forward"
                                                 : "backward"),
        table.KeepText(item.what), table.KeepText(item.cause),
        Cell::Integer(static_cast<int64_t>(item.ranks)), table.KeepText(item.call)});
  }
  report::DataTable rows{std::move(table)};
  rows.names_rows = true;
  rows.digits = 4;
  return rows;
}

// The commonest reasons first.
List Reasons(const std::vector<NotJudged>& not_judged) {
  std::map<std::string, uint64_t> counts;
  for (const NotJudged& item : not_judged) ++counts[item.why];
  List reasons{ListKind::kNamed, {}};
  reasons.brief.items = kShownReasons;
  std::vector<std::pair<std::string, uint64_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [why, count] : sorted) {
    reasons.items.push_back({base::Plural(count, "call"), why});
  }
  return reasons;
}

}  // namespace

report::Document MakeDocument(const Verdicts& verdicts) {
  report::Document document;
  document.command = "isolate";
  document.verdict = MakeVerdict(verdicts);
  document.levels = report::OutcomesOf(kGateLevels);
  // No gate passes beside a table that may hold a guilty module.
  report::SetFound(document.levels, "guilty",
                   !verdicts.guilty.empty() || UnseenTables(verdicts) > 0);
  document.warnings = verdicts.warnings;
  for (const auto& path : verdicts.unfinished) {
    document.warnings.push_back(
        fmt::format("{} is not complete: the script ended within the step", path.string()));
  }
  if (!verdicts.guilty.empty()) {
    report::Section& section = document.sections.emplace_back();
    section.title = "Guilty themselves (error over floor, relative to the reference)";
    section.blocks.emplace_back(GuiltyTable(verdicts.guilty));
  }
  List counts{ListKind::kFacts, {}};
  counts.items.push_back({"comparisons", base::FormatCount(verdicts.comparisons)});
  if (!verdicts.random_modules.empty()) {
    counts.items.push_back(
        {"cannot be told", fmt::format("{}: different, but random numbers are drawn there",
                                       base::Join(verdicts.random_modules, ", "))});
  }
  report::Section& section = document.sections.emplace_back();
  section.title = "Counts";
  section.blocks.emplace_back(std::move(counts));
  if (!verdicts.not_judged.empty()) {
    report::Section& left_out = document.sections.emplace_back();
    left_out.title = "Not judged";
    left_out.blocks.emplace_back(Reasons(verdicts.not_judged));
  }
  for (const auto& path : verdicts.tables) document.files.push_back({path});
  return document;
}

}  // namespace msprobe::analysis::isolate
