#include "src/analysis/config_check/verdict_screen.h"

#include <array>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/report/screen.h"
#include "src/report/writers.h"

namespace msprobe::analysis::config_check {
namespace {

using report::Ink;
using report::Screen;

void PutVerdict(Screen& screen, const CompareRun& run) {
  std::string failing;
  size_t failed = 0;
  for (const CheckResult& check : run.checks) {
    if (!check.passed) {
      failing += fmt::format("{}{}", failed == 0 ? "" : ", ", PartName(check.part));
      ++failed;
    }
  }
  switch (VerdictOf(run)) {
    case Verdict::kSame:
      screen.Line(Ink::kGreen, fmt::format("SAME EXPERIMENT: nothing differs in {} check{}",
                                           run.checks.size(), run.checks.size() == 1 ? "" : "s"));
      break;
    case Verdict::kSameButNan:
      screen.Line(Ink::kRed,
                  fmt::format("SAME, BUT NaN: nothing differs, but what is NaN on both sides fails "
                              "{} of {} checks ({})",
                              failed, run.checks.size(), failing));
      break;
    case Verdict::kWarnings:
      screen.Line(Ink::kYellow,
                  "SAME AS FAR AS COMPARED: every check passes, but there is something to look at");
      break;
    case Verdict::kDifferent:
      screen.Line(Ink::kRed, fmt::format("NOT THE SAME EXPERIMENT: {} of {} checks fail ({})",
                                         failed, run.checks.size(), failing));
      break;
    case Verdict::kNothingCompared:
      screen.Line(Ink::kYellow, "NOTHING COMPARED: the two packs have nothing in common");
      break;
  }
}

void PutFindings(Screen& screen, const CompareRun& run) {
  if (run.findings.empty()) {
    return;
  }
  screen.Heading("What differs, most important first (bench / cmp)");
  size_t number = 0;
  for (const Finding& finding : run.findings) {
    const Ink ink = finding.severity == Severity::kError     ? Ink::kRed
                    : finding.severity == Severity::kWarning ? Ink::kYellow
                                                             : Ink::kBold;
    const std::string_view level = finding.severity == Severity::kError     ? ""
                                   : finding.severity == Severity::kWarning ? "warning, "
                                                                            : "note, ";
    screen.Labelled(ink, fmt::format("{:>2}. {}{}:", ++number, level, PartName(finding)),
                    finding.what, 4);
    for (const std::string& example : finding.examples) {
      screen.Labelled("      -", example, 8);
    }
    if (!finding.why.empty()) {
      screen.Labelled("    why", finding.why, 8);
    }
    if (!finding.fix.empty()) {
      screen.Labelled("    fix", finding.fix, 8);
    }
  }
}

void PutGaps(Screen& screen, const CompareRun& run) {
  if (run.gaps.empty()) {
    return;
  }
  screen.Heading("Not compared");
  for (const std::string& gap : run.gaps) {
    screen.Labelled("  -", gap, 4);
  }
}

void PutChecks(Screen& screen, const CompareRun& run) {
  if (run.checks.empty()) {
    return;
  }
  screen.Heading("Checks");
  report::Table table("checks", {"Check", "Result", "Errors", "Warnings", "Rows"});
  for (const CheckResult& check : run.checks) {
    const auto count = [](size_t value) {
      return report::Cell::Integer(static_cast<int64_t>(value));
    };
    const std::array<report::Cell, 5> cells = {report::Cell::Text(PartName(check.part)),
                                               report::Cell::Text(check.passed ? "pass" : "FAIL"),
                                               count(check.errors), count(check.warnings),
                                               count(check.table.row_count())};
    table.AddRow(cells);
  }
  screen.Raw(report::TerminalTable(table, {screen.width(), screen.color()}));
}

}  // namespace

std::string VerdictScreen(const CompareRun& run, size_t width, bool color) {
  Screen screen(width, color);
  PutVerdict(screen, run);
  PutFindings(screen, run);
  PutGaps(screen, run);
  PutChecks(screen, run);
  screen.Heading(fmt::format("Files (compared in {})", base::FormatSeconds(run.seconds)));
  for (const std::filesystem::path& file : run.files) {
    screen.Raw(fmt::format("  {}\n", base::Printable(file.string())));
  }
  screen.Raw(fmt::format("  {}\n  {}\n", base::Printable((run.output_folder / "bench/").string()),
                         base::Printable((run.output_folder / "cmp/").string())));
  return screen.Take();
}

}  // namespace msprobe::analysis::config_check
