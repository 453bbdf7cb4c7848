#include "src/analysis/accuracy/check/document.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::analysis::accuracy {

void MarkFailed(Outcome outcome, std::string_view skipped, std::string_view differs,
                report::TestCase& test) {
  test.outcome = report::CaseOutcome::kFailed;
  test.level = outcome == Outcome::kSkip    ? "skip"
               : outcome == Outcome::kError ? "error"
                                            : "warning";
  test.type = outcome == Outcome::kSkip ? skipped : differs;
}

std::string RestartWarning(uint64_t restarts) {
  return fmt::format("a worker had to be started again {} because of an operator; its row says why",
                     restarts == 1 ? "once" : fmt::format("{} times", restarts));
}

namespace {

using base::Plural;
using report::AnswerOutcome;
using report::Cell;
using report::Section;
using report::Tone;

uint64_t CountOf(const Check& check, Outcome outcome) {
  return static_cast<uint64_t>(
      std::count_if(check.operators.begin(), check.operators.end(),
                    [&](const CheckedOperator& checked) { return checked.verdict() == outcome; }));
}

report::Verdict CheckVerdict(const Check& check) {
  const uint64_t errors = CountOf(check, Outcome::kError);
  const uint64_t skipped = CountOf(check, Outcome::kSkip);
  const uint64_t judged = check.operators.size() - skipped;
  report::Verdict verdict;
  verdict.unit = "operators";
  verdict.number = static_cast<double>(errors);
  const std::string all = Plural(judged, "operator");
  if (judged == 0 && check.finished_before > 0 && check.operators.empty()) {
    verdict.Say("DONE", "all operators were checked by the run before", Tone::kGood);
  } else if (judged == 0) {
    verdict.Say("NOTHING CHECKED", "no operator could be run", Tone::kBad,
                AnswerOutcome::kNothingCompared);
  } else if (errors > 0) {
    verdict.Say("INACCURATE", fmt::format("{} of {} differ from the CPU", errors, all), Tone::kBad,
                AnswerOutcome::kFindings);
  } else {
    verdict.Say("ACCURATE", fmt::format("{} agree with the CPU", all), Tone::kGood);
  }
  if (judged > 0 && skipped > 0) {
    verdict.text += fmt::format("; {} could not be checked", skipped);
  }
  const auto ruled = static_cast<uint64_t>(
      std::count_if(check.operators.begin(), check.operators.end(),
                    [](const CheckedOperator& checked) { return checked.fails_only_the_rule(); }));
  if (ruled > 0) {
    verdict.text +=
        fmt::format("; {} only the Python tool's rule: inf or NaN that are the same on both sides",
                    ruled == 1 ? "1 fails" : fmt::format("{} fail", ruled));
  }
  return verdict;
}

// Dumps that end early, or could not be checked at all: what was found holds, but it is not all.
template <typename Answer>
void TellIncomplete(const Answer& check, report::Document& document) {
  if (check.truncated) {
    document.verdict.outcome = AnswerOutcome::kIncomplete;
    document.warnings.emplace_back(
        "the dump ends early: only the calls that are whole in it were checked");
  }
  if (check.failed_dumps.empty()) {
    return;
  }
  document.verdict.outcome = AnswerOutcome::kIncomplete;
  document.verdict.text +=
      fmt::format("; {} of {} could not be checked", check.failed_dumps.size(),
                  Plural(check.failed_dumps.size() + check.checked_dumps, "dump"));
  report::List list{report::ListKind::kNamed, {}};
  for (const FailedDump& failed : check.failed_dumps) {
    const std::string path = base::Printable(failed.dump.string());
    list.items.push_back({path, base::Printable(failed.reason), Tone::kBad});
    document.warnings.push_back(fmt::format("{} could not be checked: {}", path, failed.reason));
    report::TestCase& test = document.cases.emplace_back();
    test.name = path;
    test.outcome = report::CaseOutcome::kError;
    test.type = "not checked";
    test.message = failed.reason;
  }
  document.Add("Dumps that could not be checked", std::move(list));
}

void AddCases(const Check& check, report::Document& document) {
  for (const CheckedOperator& checked : check.operators) {
    report::TestCase& test = document.cases.emplace_back();
    test.name = checked.name;
    test.message = checked.message;
    const Outcome outcome = checked.verdict();
    if (outcome == Outcome::kPass) {
      continue;
    }
    MarkFailed(outcome, "not run", "differs from the CPU", test);
  }
}

}  // namespace

report::Document MakeDocument(const Check& check, std::string_view command) {
  report::Document document;
  document.command = command;
  document.verdict = CheckVerdict(check);
  document.levels = report::OutcomesOf(kCheckGateLevels);
  report::SetFound(document.levels, "error", CountOf(check, Outcome::kError) > 0);
  report::SetFound(document.levels, "warning", CountOf(check, Outcome::kWarning) > 0);
  report::SetFound(document.levels, "skip", CountOf(check, Outcome::kSkip) > 0);
  if (const auto worst = WorstOf(check.operators, &CheckedOperator::verdict, check.worst);
      !worst.empty()) {
    report::Table table("worst", {"Operator", "Forward", "Backward", "Max error", "Why"});
    for (const CheckedOperator* checked : worst) {
      table.AddRow({table.KeepText(base::Printable(checked->name)),
                    Cell::Text(OutcomeText(checked->forward)),
                    Cell::Text(checked->has_backward ? OutcomeText(checked->backward) : ""),
                    table.KeepText(fmt::format("{:.3g}", checked->max_abs)),
                    table.KeepText(base::Printable(checked->message))});
    }
    report::DataTable shown{std::move(table)};
    shown.amounts = {3};
    shown.names_rows = true;
    document.Add("Operators that differ most", std::move(shown));
  }
  if (!check.dumps.empty()) {
    report::Table table("dumps", {"Dump", "Operators", "Error", "Warning", "Not checked"});
    for (const Check::OfDump& dump : check.dumps) {
      const auto count = [&dump](Outcome outcome) {
        return Cell::Integer(static_cast<int64_t>(dump.operators.Of(outcome)));
      };
      table.AddRow({table.KeepText(dump.name),
                    Cell::Integer(static_cast<int64_t>(dump.operators.total())),
                    count(Outcome::kError), count(Outcome::kWarning), count(Outcome::kSkip)});
    }
    document.Add("Dumps", report::DataTable{std::move(table)});
  }
  report::List facts{report::ListKind::kFacts, {}};
  facts.items.push_back({"forward", CountsText(check.forward)});
  facts.items.push_back({"backward", CountsText(check.backward)});
  if (!check.framework.empty()) {
    facts.items.push_back({"device", fmt::format("{}, {}", check.device, check.framework)});
  }
  facts.items.push_back({"limits", check.limits});
  if (check.finished_before > 0) {
    facts.items.push_back({"before", Plural(check.finished_before, "operator") +
                                         " of the run that this one goes on with"});
  }
  if (check.left_out > 0) {
    facts.items.push_back({"left out", Plural(check.left_out, "call") + " like an earlier one"});
  }
  document.Add("Totals", std::move(facts));
  AddCases(check, document);
  document.warnings = check.warnings;
  if (check.restarts > 0) {
    document.warnings.push_back(RestartWarning(check.restarts));
  }
  TellIncomplete(check, document);
  document.AddFiles(check.files);
  if (CountOf(check, Outcome::kError) > 0 && !check.device.starts_with("cpu")) {
    document.next.emplace_back("run_ut.compare_with_gpu");
  }
  document.action = "checked";
  document.seconds = check.seconds;
  return document;
}

report::Document MakeDocument(const OverflowCheck& check) {
  report::Document document;
  document.command = "run_overflow_check";
  uint64_t checked = 0;
  uint64_t abnormal = 0;
  uint64_t any = 0;
  report::List list{report::ListKind::kNamed, {}};
  report::List skipped{report::ListKind::kNamed, {}};
  for (const OverflowCheck::Call& call : check.calls) {
    checked += call.skipped ? 0 : 1;
    abnormal += call.abnormal ? 1 : 0;
    any += !call.skipped && !call.message.empty() ? 1 : 0;
    if (!call.message.empty()) {
      (call.skipped ? skipped : list)
          .items.push_back({base::Printable(call.name), base::Printable(call.message),
                            call.abnormal ? Tone::kBad : Tone::kPlain});
    }
  }
  report::Verdict& verdict = document.verdict;
  verdict.number = static_cast<double>(abnormal);
  verdict.unit = "operators";
  if (checked == 0) {
    verdict.Say("NOTHING CHECKED", "no operator could be run", Tone::kBad,
                AnswerOutcome::kNothingCompared);
  } else if (abnormal > 0) {
    verdict.Say(
        "ABNORMAL",
        fmt::format("{} of {} overflow on one side only", abnormal, Plural(checked, "operator")),
        Tone::kBad, AnswerOutcome::kFindings);
  } else {
    verdict.Say("NORMAL",
                fmt::format("{}, of which {} on the CPU as well", Plural(checked, "operator"),
                            any == 1 ? "1 overflows" : fmt::format("{} overflow", any)),
                Tone::kGood);
  }
  document.levels = report::OutcomesOf(kOverflowGateLevels);
  report::SetFound(document.levels, "abnormal", abnormal > 0);
  report::SetFound(document.levels, "any", any > 0);
  report::SetFound(document.levels, "skip", checked < check.calls.size());
  for (const OverflowCheck::Call& call : check.calls) {
    report::TestCase& test = document.cases.emplace_back();
    test.name = call.name;
    test.message = call.message;
    if (!call.message.empty()) {
      test.outcome = report::CaseOutcome::kFailed;
      test.level = call.skipped ? "skip" : call.abnormal ? "abnormal" : "any";
      test.type = call.skipped ? "not run" : "overflow";
    }
  }
  if (!list.items.empty()) {
    document.Add("Overflows", std::move(list));
  }
  if (!skipped.items.empty()) {
    document.Add("Not checked", std::move(skipped));
  }
  document.warnings = check.warnings;
  TellIncomplete(check, document);
  return document;
}

}  // namespace msprobe::analysis::accuracy
