#include "src/analysis/accuracy/online/document.h"

#include <utility>

#include <fmt/format.h>

#include "src/analysis/accuracy/check/common_answer.h"
#include "src/analysis/accuracy/check/document.h"
#include "src/base/strings.h"

namespace msprobe::analysis::accuracy {
namespace {

using base::Plural;
using report::Cell;
using report::Section;
using report::Standing;
using report::Tone;

report::Verdict OnlineVerdict(const OnlineCheck& check) {
  const OutcomeCounts calls = check.calls();
  const uint64_t errors = calls.Of(Outcome::kError);
  report::Verdict verdict;
  verdict.unit = "operators";
  verdict.number = static_cast<double>(errors);
  if (calls.judged() == 0) {
    verdict.word = "NOTHING CHECKED";
    verdict.text = calls.total() == 0 ? "NOTHING CHECKED: no call came"
                                      : "NOTHING CHECKED: no call could be run and judged";
    verdict.tone = Tone::kBad;
    verdict.standing = Standing::kNothingCompared;
    return verdict;
  }
  const std::string judged = Plural(calls.judged(), "call");
  if (errors > 0) {
    verdict.word = "INACCURATE";
    verdict.text =
        fmt::format("INACCURATE: {} of {} of the training miss their standard", errors, judged);
    verdict.tone = Tone::kBad;
    verdict.standing = Standing::kFindings;
  } else {
    verdict.word = "ACCURATE";
    verdict.text = fmt::format("ACCURATE: {} of the training meet their standards", judged);
    verdict.tone = Tone::kGood;
  }
  if (calls.Of(Outcome::kSkip) > 0) {
    verdict.text += fmt::format("; {} could not be checked", calls.Of(Outcome::kSkip));
  }
  return verdict;
}

void AddWorst(const OnlineCheck& check, report::Document& document) {
  const std::vector<const OnlineOperator*> worst =
      WorstOf(check.operators, &OnlineOperator::outcome, check.worst);
  if (worst.empty()) {
    return;
  }
  report::Table table("worst", {"Call", "Outcome", "Max error", "Why"});
  for (const OnlineOperator* checked : worst) {
    const Cell cells[] = {table.KeepText(base::Printable(checked->name)),
                          Cell::Text(OutcomeText(checked->outcome)),
                          table.KeepText(fmt::format("{:.3g}", checked->max_abs)),
                          table.KeepText(base::Printable(checked->message))};
    table.AddRow(cells);
  }
  Section section{"Calls that differ most", {}};
  report::DataTable data{std::move(table)};
  data.amounts = {2};
  data.names_rows = true;
  section.blocks.emplace_back(std::move(data));
  document.sections.push_back(std::move(section));
}

}  // namespace

OutcomeCounts OnlineCheck::calls() const {
  OutcomeCounts all;
  for (const auto& [rank, found] : ranks) {
    all.Add(found.calls);
  }
  return all;
}

report::Document MakeDocument(const OnlineCheck& check, std::string_view command) {
  report::Document document;
  document.command = command;
  document.verdict = OnlineVerdict(check);
  const OutcomeCounts calls = check.calls();
  document.levels = report::OutcomesOf(kCheckGateLevels);
  report::SetFound(document.levels, "error", calls.Of(Outcome::kError) > 0);
  report::SetFound(document.levels, "warning", calls.Of(Outcome::kWarning) > 0);
  report::SetFound(document.levels, "skip", calls.Of(Outcome::kSkip) > 0);
  AddWorst(check, document);
  report::List facts{report::ListKind::kFacts, {}};
  for (const auto& [rank, found] : check.ranks) {
    facts.items.push_back({fmt::format("rank {}", rank), CountsText(found.calls)});
  }
  facts.items.push_back({"from", check.endpoint});
  if (!check.framework.empty()) {
    facts.items.push_back({"device", fmt::format("{}, {}", check.device, check.framework)});
  }
  facts.items.push_back({"limits", check.limits});
  Section totals{"Totals", {}};
  totals.blocks.emplace_back(std::move(facts));
  document.sections.push_back(std::move(totals));
  for (const OnlineOperator& checked : check.operators) {
    report::TestCase& test = document.cases.emplace_back();
    test.name = checked.name;
    test.message = checked.message;
    MarkFailed(checked.outcome, "not judged", "misses its standard", test);
  }
  document.warnings = check.warnings;
  for (const auto& [rank, found] : check.ranks) {
    if (found.dropped > 0) {
      document.warnings.push_back(
          fmt::format("rank {}: the training dropped {} for lack of room: they were not checked",
                      rank, Plural(found.dropped, "call")));
    }
    if (found.left_out > 0) {
      document.warnings.push_back(fmt::format(
          "rank {}: {} left out, because they could not be read or are too large", rank,
          found.left_out == 1 ? "1 call was" : fmt::format("{} calls were", found.left_out)));
    }
    if (!found.has_ended) {
      document.warnings.push_back(fmt::format(
          "rank {} did not say that it had ended: later calls of it may be missing", rank));
    }
  }
  if (check.was_stopped) {
    document.warnings.emplace_back("the check was stopped before the trainings had ended");
  }
  if (check.restarts > 0) {
    document.warnings.push_back(RestartWarning(check.restarts));
  }
  for (const std::filesystem::path& file : check.files) {
    document.files.push_back({file});
  }
  document.deed = "checked";
  document.seconds = check.seconds;
  return document;
}

}  // namespace msprobe::analysis::accuracy
