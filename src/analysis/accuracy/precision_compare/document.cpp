#include "src/analysis/accuracy/precision_compare/document.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::analysis::accuracy {
namespace {

using base::Plural;
using report::Cell;
using report::Section;
using report::Standing;
using report::Tone;

constexpr size_t kNamedInWarnings = 3;

report::Verdict PrecisionVerdict(const PrecisionComparison& comparison) {
  const OutcomeCounts& operators = comparison.operators;
  report::Verdict verdict;
  verdict.unit = "operators";
  verdict.number = static_cast<double>(operators.Of(Outcome::kError));
  const std::string judged = Plural(operators.judged(), "operator");
  if (operators.judged() == 0) {
    verdict.word = "NOTHING COMPARED";
    verdict.text = "NOTHING COMPARED: no operator could be judged";
    verdict.tone = Tone::kBad;
    verdict.standing = Standing::kNothingCompared;
  } else if (operators.Of(Outcome::kError) > 0) {
    verdict.word = "LESS ACCURATE";
    verdict.text = fmt::format("LESS ACCURATE: {} of {} that were judged miss their standard",
                               operators.Of(Outcome::kError), judged);
    verdict.tone = Tone::kBad;
    verdict.standing = Standing::kFindings;
  } else {
    verdict.word = "AS ACCURATE";
    verdict.text = fmt::format("AS ACCURATE: {} meet their standards", judged);
    verdict.tone = Tone::kGood;
  }
  return verdict;
}

// "a, b, c and 4 more"
std::string Names(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < kNamedInWarnings; ++i) {
    text += (i > 0 ? ", " : "") + base::Printable(names[i]);
  }
  return names.size() <= kNamedInWarnings
             ? text
             : fmt::format("{} and {} more", text, names.size() - kNamedInWarnings);
}

}  // namespace

report::Document MakeDocument(const PrecisionComparison& comparison) {
  report::Document document;
  document.command = "api_precision_compare";
  document.verdict = PrecisionVerdict(comparison);
  document.levels = report::OutcomesOf(kPrecisionGateLevels);
  const bool has_skips =
      comparison.operators.Of(Outcome::kSkip) > 0 || !comparison.unmatched.empty();
  report::SetFound(document.levels, "error", comparison.operators.Of(Outcome::kError) > 0);
  report::SetFound(document.levels, "skip", has_skips);

  if (!comparison.worst.empty()) {
    report::Table table("worst", {"Output", "Algorithm", "Beyond", "Why"});
    for (const WorstOutput& worst : comparison.worst) {
      const Cell cells[] = {
          table.KeepText(base::Printable(worst.name)), table.KeepText(worst.algorithm),
          table.KeepText(std::isinf(worst.excess) ? std::string("inf or NaN")
                                                  : fmt::format("{:.3g}x", worst.excess)),
          table.KeepText(base::Printable(worst.reason))};
      table.AddRow(cells);
    }
    Section section{"Furthest beyond their limits", {}};
    report::DataTable data{std::move(table)};
    data.amounts = {2};
    data.names_rows = true;
    section.blocks.emplace_back(std::move(data));
    document.sections.push_back(std::move(section));
  }
  report::List facts{report::ListKind::kFacts, {}};
  facts.items.push_back({"operators", CountsText(comparison.operators)});
  facts.items.push_back({"outputs", CountsText(comparison.outputs)});
  facts.items.push_back({"limits", comparison.limits});
  Section totals{"Totals", {}};
  totals.blocks.emplace_back(std::move(facts));
  document.sections.push_back(std::move(totals));

  for (const JudgedOperator& judged : comparison.judged) {
    report::TestCase& test = document.cases.emplace_back();
    test.name = judged.name;
    test.message = judged.reason;
    if (judged.outcome == Outcome::kError || judged.outcome == Outcome::kSkip) {
      const bool failed = judged.outcome == Outcome::kError;
      test.outcome = failed ? report::CaseOutcome::kFailed : report::CaseOutcome::kError;
      test.level = failed ? "error" : "skip";
      test.type = failed ? "less accurate" : "not judged";
    }
  }
  if (!comparison.unmatched.empty()) {
    document.warnings.push_back(fmt::format("{} not judged, because the GPU's file lacks {}: {}",
                                            Plural(comparison.unmatched.size(), "output"),
                                            comparison.unmatched.size() == 1 ? "it" : "them",
                                            Names(comparison.unmatched)));
  }
  if (comparison.gpu_only > 0) {
    document.warnings.push_back(fmt::format(
        "{} of the GPU's file not judged, because the NPU's file lacks {}",
        Plural(comparison.gpu_only, "output"), comparison.gpu_only == 1 ? "it" : "them"));
  }
  if (!comparison.duplicated.empty()) {
    document.warnings.push_back(
        fmt::format("{} more than once; the last row counts: {}",
                    comparison.duplicated.size() == 1
                        ? "1 output stands in a file"
                        : Plural(comparison.duplicated.size(), "output") + " stand in a file",
                    Names(comparison.duplicated)));
  }
  for (const std::filesystem::path& file : comparison.files) {
    document.files.push_back({file});
  }
  return document;
}

}  // namespace msprobe::analysis::accuracy
