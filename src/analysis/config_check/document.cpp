#include "src/analysis/config_check/document.h"

#include <utility>

#include <fmt/format.h>

#include "src/analysis/config_check/result_json.h"
#include "src/base/strings.h"

namespace msprobe::analysis::config_check {
namespace {

using base::FormatCount;
using base::Plural;
using report::AnswerOutcome;
using report::CaseOutcome;
using report::Item;
using report::List;
using report::ListKind;
using report::Section;
using report::Tone;

constexpr size_t kShownSettings = 40;

report::Verdict Say(std::string_view word, Tone tone, AnswerOutcome outcome,
                    const std::string& rest, size_t number, std::string_view unit) {
  report::Verdict verdict;
  verdict.Say(word, rest, tone, outcome);
  verdict.text = rest.empty() ? std::string(word) : verdict.text;
  verdict.number = static_cast<double>(number);
  verdict.unit = unit;
  return verdict;
}

report::Verdict MakeVerdict(const CompareRun& run) {
  std::string failing;
  size_t failed = 0;
  for (const CheckResult& check : run.checks) {
    if (!check.passed) {
      failing += fmt::format("{}{}", failed == 0 ? "" : ", ", PartName(check.part));
      ++failed;
    }
  }
  const size_t all = run.checks.size();
  report::Verdict verdict;
  switch (VerdictOf(run)) {
    case Verdict::kSame:
      verdict = Say("SAME EXPERIMENT", Tone::kGood, AnswerOutcome::kClean,
                    fmt::format("nothing differs in {}", Plural(all, "check")), failed, "checks");
      break;
    case Verdict::kSameInPart:
      verdict =
          Say(fmt::format("SAME IN {} OF {} CHECKS", run.compared_checks,
                          run.compared_checks + run.missing.size()),
              Tone::kCaution, AnswerOutcome::kFindings,
              fmt::format("not compared: {}", base::Join(run.missing, ", ")), failed, "checks");
      break;
    case Verdict::kSameButNan:
      verdict = Say(
          "SAME, BUT NaN", Tone::kBad, AnswerOutcome::kFindings,
          fmt::format(
              "nothing differs, but values that are NaN on both sides fail {} of {} checks ({})",
              failed, all, failing),
          failed, "checks");
      break;
    case Verdict::kWarnings:
      verdict = Say("SAME AS FAR AS COMPARED", Tone::kCaution, AnswerOutcome::kFindings,
                    "all checks pass, with warnings", failed, "checks");
      break;
    case Verdict::kDifferent:
      verdict =
          Say("NOT THE SAME EXPERIMENT", Tone::kBad, AnswerOutcome::kFindings,
              fmt::format("{} of {} checks fail ({})", failed, all, failing), failed, "checks");
      break;
    case Verdict::kNothingCompared:
      verdict = Say("NOTHING COMPARED", Tone::kCaution, AnswerOutcome::kNothingCompared,
                    "the two packs have nothing in common", 0, "checks");
      break;
  }
  // Data, weights or hyperparameters of which nothing is on both sides leave the other checks
  // standing, but nothing that a gate may pass.
  if (ComparedNothing(run)) {
    verdict.outcome = AnswerOutcome::kNothingCompared;
  }
  return verdict;
}

Section FindingsSection(const CompareRun& run) {
  List list{ListKind::kNumbered, {}};
  for (const Finding& finding : run.findings) {
    const Tone tone = finding.severity == Severity::kError     ? Tone::kBad
                      : finding.severity == Severity::kWarning ? Tone::kCaution
                                                               : Tone::kStrong;
    const std::string_view level = finding.severity == Severity::kError     ? ""
                                   : finding.severity == Severity::kWarning ? "warning, "
                                                                            : "note, ";
    Item item{fmt::format("{}{}", level, PartName(finding)), finding.what, tone};
    for (const std::string& example : finding.examples) {
      item.details.push_back({"", example});
    }
    if (!finding.why.empty()) {
      item.details.push_back({"why", finding.why});
    }
    if (!finding.fix.empty()) {
      item.details.push_back({"fix", finding.fix});
    }
    list.items.push_back(std::move(item));
  }
  return report::MakeSection("What differs, most important first (test / reference)",
                             std::move(list));
}

Section GapsSection(const CompareRun& run) {
  List list{ListKind::kBullets, {}};
  for (const std::string& gap : run.gaps) {
    list.items.push_back({"", gap});
  }
  return report::MakeSection("Not compared", std::move(list));
}

Section ChecksSection(const CompareRun& run) {
  report::Table table("checks", {"Check", "Result", "Errors", "Warnings", "Rows"});
  for (const CheckResult& check : run.checks) {
    const auto count = [](size_t value) {
      return report::Cell::Integer(static_cast<int64_t>(value));
    };
    table.AddRow({report::Cell::Text(PartName(check.part)),
                  report::Cell::Text(!check.passed    ? "FAIL"
                                     : check.compared ? "pass"
                                                      : "not compared"),
                  count(check.errors), count(check.warnings), count(check.table.row_count())});
  }
  return report::MakeSection("Checks", report::DataTable{std::move(table)});
}

// A case per check, with what was found in it.
std::vector<report::TestCase> CasesOf(const CompareRun& run) {
  std::vector<report::TestCase> cases;
  for (const CheckResult& check : run.checks) {
    report::TestCase& test = cases.emplace_back();
    test.name = PartName(check.part);
    test.message =
        fmt::format("{}, {}", Plural(check.errors, "error"), Plural(check.warnings, "warning"));
    if (!check.passed) {
      test.outcome = CaseOutcome::kFailed;
      test.level = "error";
      test.type = "different";
    } else if (check.warnings > 0) {
      test.outcome = CaseOutcome::kFailed;
      test.level = "warning";
      test.type = "warning";
    }
    for (const Finding& finding : run.findings) {
      if (finding.part == check.part) {
        test.details += finding.what + "\n";
      }
    }
  }
  for (const std::string& missing : run.missing) {
    cases.push_back({"packs", 0, CaseOutcome::kFailed, run.gate_needs_missing ? "error" : "warning",
                     "not compared", missing});
  }
  for (const std::string& gap : run.gaps) {
    cases.push_back({"packs", 0, CaseOutcome::kFailed, "warning", "not compared", gap});
  }
  return cases;
}

}  // namespace

report::Document MakeDocument(const CompareRun& run) {
  report::Document document;
  document.command = "config_check";
  document.verdict = MakeVerdict(run);
  document.levels = report::OutcomesOf(kGateLevels);
  report::SetFound(document.levels, "error", HasErrors(run));
  report::SetFound(document.levels, "warning", HasWarnings(run));
  document.cases = CasesOf(run);
  document.sections.push_back(FindingsSection(run));
  document.sections.push_back(GapsSection(run));
  document.sections.push_back(ChecksSection(run));
  document.AddFiles(run.files);
  document.files.push_back({run.output_folder / "bench/", "unpacked"});
  document.files.push_back({run.output_folder / "cmp/", "unpacked"});
  if (!run.gaps.empty()) {
    document.warnings.push_back(fmt::format("{} on one side only, not compared; the first: {}",
                                            Plural(run.gaps.size(), "thing"), run.gaps.front()));
  }
  document.warnings.insert(document.warnings.end(), run.warnings.begin(), run.warnings.end());
  document.seconds = run.seconds;
  return document;
}

report::Document MakeDocument(const CollectSummary& summary) {
  report::Document document;
  document.command = "config_check";
  document.verdict = summary.complete
                         ? Say("COLLECTED", Tone::kGood, AnswerOutcome::kClean, "",
                               summary.parameters, "hyperparameters")
                         : Say("COLLECTED IN PART", Tone::kCaution, AnswerOutcome::kIncomplete,
                               "an input could not be read", summary.parameters, "hyperparameters");
  document.levels = report::OutcomesOf(kGateLevels);
  List facts{ListKind::kFacts, {}};
  facts.items.push_back(
      {"environment", summary.masked == 0
                          ? Plural(summary.variables, "variable")
                          : fmt::format("{}, {} with a secret masked",
                                        Plural(summary.variables, "variable"), summary.masked)});
  if (summary.script_variables > 0) {
    facts.items.push_back(
        {"of scripts",
         fmt::format("{} of the environment", Plural(summary.script_variables, "variable"))});
  }
  facts.items.push_back(
      {"packages",
       summary.interpreter.empty()
           ? "none: no Python interpreter was found"
           : fmt::format("{} of {}", Plural(summary.packages, "package"), summary.interpreter)});
  if (!summary.versions.empty()) {
    facts.items.push_back({"versions", base::Join(summary.versions, ", ")});
  }
  for (const CollectedInput& input : summary.inputs) {
    facts.items.push_back(
        {"script", fmt::format("{}: {}", input.path.string(),
                               input.problem.empty() ? Plural(input.parameters, "hyperparameter")
                                                     : input.problem)});
  }
  if (summary.masked_parameters > 0) {
    facts.items.push_back({"secrets", fmt::format("{} of hyperparameters masked",
                                                  Plural(summary.masked_parameters, "value"))});
  }
  document.Add("What was collected", std::move(facts));
  document.files.push_back({summary.output});
  document.warnings = summary.warnings;
  return document;
}

namespace {

report::Verdict MakeVerdict(const LogSettingsRun& run) {
  const size_t different = run.different();
  const std::string_view noun = run.verified ? "required setting" : "setting";
  if (run.common() == 0) {
    return Say("NOTHING COMPARED", Tone::kCaution, AnswerOutcome::kNothingCompared,
               fmt::format("the two have no {} in common", noun), 0, "settings");
  }
  if (different == 0) {
    return Say(run.verified ? "AS REQUIRED" : "SAME SETTINGS", Tone::kGood, AnswerOutcome::kClean,
               fmt::format("all {} agree", Plural(run.settings.size(), noun)), 0, "settings");
  }
  return Say(run.verified ? "NOT AS REQUIRED" : "DIFFERENT SETTINGS", Tone::kBad,
             AnswerOutcome::kFindings,
             fmt::format("{} of {}", FormatCount(different), Plural(run.settings.size(), noun)),
             different, "settings");
}

std::string SettingText(const LogSetting& setting, size_t side) {
  return setting.present[side] ? setting.values[side] : "not set";
}

Section DifferencesSection(const LogSettingsRun& run) {
  report::Table table("differences", {"Setting", run.verified ? "Required" : "Test",
                                      run.verified ? "Log" : "Reference"});
  // Values that differ first, then what only one side has.
  for (const bool both : {true, false}) {
    for (const LogSetting& setting : run.settings) {
      const bool in_both = setting.present[0] && setting.present[1];
      if (!setting.equal && in_both == both) {
        table.AddRow({table.KeepText(setting.name), table.KeepText(SettingText(setting, 0)),
                      table.KeepText(SettingText(setting, 1))});
      }
    }
  }
  return report::MakeSection("What differs", report::DataTable{std::move(table), {kShownSettings}});
}

}  // namespace

report::Document MakeDocument(const LogSettingsRun& run) {
  report::Document document;
  document.command = "config_check";
  document.verdict = MakeVerdict(run);
  document.levels = report::OutcomesOf(kGateLevels);
  report::SetFound(document.levels, "error", run.different() > 0);
  for (const LogSetting& setting : run.settings) {
    report::TestCase& test = document.cases.emplace_back();
    test.name = setting.name;
    if (!setting.equal) {
      test.Fail("error", "different",
                fmt::format("{} / {}", SettingText(setting, 0), SettingText(setting, 1)));
    }
  }
  document.sections.emplace_back();
  document.sections.back().blocks.emplace_back(
      List{ListKind::kFacts,
           {{run.verified ? "required" : "test", run.sources[0]},
            {run.verified ? "log" : "reference", run.sources[1]}}});
  if (run.masked > 0) {
    std::get<List>(document.sections.back().blocks.back())
        .items.push_back({"secrets", fmt::format("{} masked", Plural(run.masked, "value"))});
  }
  document.sections.push_back(DifferencesSection(run));
  document.AddFiles(run.files);
  document.warnings = run.warnings;
  return document;
}

}  // namespace msprobe::analysis::config_check
