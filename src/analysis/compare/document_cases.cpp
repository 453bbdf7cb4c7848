#include "src/analysis/compare/document_cases.h"

#include <algorithm>

#include <fmt/format.h>

#include "src/analysis/compare/document.h"
#include "src/analysis/compare/run_verdict.h"

namespace msprobe::analysis::compare {
namespace {

void AppendPoint(std::string& text, std::string_view title, const DivergencePoint& point) {
  text += fmt::format("{}: {}\n  row {}\n  error {} in, {} out\n", title, PointTitle(point),
                      point.row_name, ErrorText(point.input_error), ErrorText(point.output_error));
  if (!point.code_line.empty()) {
    text += fmt::format("  code {}\n", point.code_line);
  }
  if (!point.reason.empty()) {
    text +=
        fmt::format("  why {} ({} confidence)\n", point.reason, ConfidenceName(point.confidence));
  }
  if (!point.note.empty()) {
    text += fmt::format("  note {}\n", point.note);
  }
}

std::string Details(const PairSummary& pair) {
  const RowCounts& counts = pair.counts;
  std::string text = fmt::format(
      "{} rows: {} identical, {} within noise, {} drift, {} differ, {} not compared\n"
      "unmatched: {} NPU only, {} bench only, {} other shape, {} other dtype\n",
      counts.rows, counts.identical, counts.agreeing - counts.identical, counts.drifting,
      counts.differing, counts.not_compared, counts.npu_only, counts.bench_only,
      counts.shape_mismatch, counts.dtype_mismatch);
  for (const std::optional<DivergencePoint>& point : pair.divergence.first_of_kind) {
    if (point) {
      AppendPoint(text, fmt::format("first {}", OriginKindName(point->kind)), *point);
    }
  }
  if (pair.divergence.first_drift) {
    AppendPoint(text, "first drift", *pair.divergence.first_drift);
  }
  if (pair.divergence.first_unequal_bits) {
    AppendPoint(text, "first output that is not bit-equal", *pair.divergence.first_unequal_bits);
  }
  for (const std::filesystem::path& file : pair.files) {
    text += fmt::format("file {}\n", file.string());
  }
  return text;
}

std::string FailureMessage(const PairSummary& pair, PairVerdict verdict) {
  if (pair.divergence.first_origin) {
    return fmt::format("{} rows differ; first origin: {}", pair.counts.differing,
                       PointTitle(*pair.divergence.first_origin));
  }
  switch (verdict) {
    case PairVerdict::kDrifts:
      return fmt::format("{} rows are beyond rounding noise; accumulated rounding explains them",
                         pair.counts.drifting);
    case PairVerdict::kUnequalBits:
      return fmt::format("{} rows are not bit-equal", pair.counts.agreeing - pair.counts.identical);
    default:
      return fmt::format("{} rows differ", pair.counts.differing);
  }
}

uint64_t VerdictRows(const RunSummary& summary, Verdict verdict) {
  return summary.totals.by_verdict[static_cast<size_t>(verdict)];
}

bool HasErrors(const RunSummary& summary) {
  return summary.totals.red > 0 || VerdictRows(summary, Verdict::kNo) > 0 ||
         VerdictRows(summary, Verdict::kDifferent) > 0 ||
         VerdictRows(summary, Verdict::kUnmatched) > 0;
}

bool HasWarnings(const RunSummary& summary) {
  return summary.totals.yellow > 0 || VerdictRows(summary, Verdict::kWarning) > 0 ||
         !summary.npu_only.empty() || !summary.bench_only.empty();
}

// Rows of one side alone, or of other shapes. Where a pair drifts, they follow from it: what is
// chosen and how often depends on values. A call too many of another cause would have been an
// origin.
bool HasUnmatchedRows(const RunSummary& summary) {
  return std::any_of(summary.pairs.begin(), summary.pairs.end(), [](const PairSummary& pair) {
    const RowCounts& counts = pair.counts;
    return counts.npu_only + counts.bench_only + counts.shape_mismatch + counts.dtype_mismatch >
               0 &&
           VerdictOf(pair) != PairVerdict::kDrifts;
  });
}

bool HasDifferences(const RunSummary& summary) {
  return HasUnmatchedRows(summary) || !summary.npu_only.empty() || !summary.bench_only.empty() ||
         std::any_of(summary.pairs.begin(), summary.pairs.end(), [](const PairSummary& pair) {
           const PairVerdict verdict = VerdictOf(pair);
           return verdict == PairVerdict::kDiffers || verdict == PairVerdict::kUnequalBits;
         });
}

}  // namespace

std::vector<report::TestCase> CasesOf(const RunSummary& summary) {
  using report::CaseOutcome;
  std::vector<report::TestCase> cases;
  for (const PairSummary& pair : summary.pairs) {
    const PairVerdict verdict = VerdictOf(pair);
    report::TestCase& test = cases.emplace_back();
    test.name = PairName(pair);
    test.seconds =
        pair.timings.load_seconds + pair.timings.compare_seconds + pair.timings.write_seconds;
    if (verdict == PairVerdict::kFailed) {
      test.outcome = CaseOutcome::kError;
      test.type = "not compared";
      test.message = pair.error;
    } else if (verdict == PairVerdict::kNothingCompared) {
      test.outcome = CaseOutcome::kFailed;
      test.type = PairVerdictName(verdict);
      test.message = NothingComparedHint(pair);
      test.details = Details(pair);
    } else if (verdict == PairVerdict::kDiffers || verdict == PairVerdict::kDrifts ||
               verdict == PairVerdict::kUnequalBits) {
      test.outcome = CaseOutcome::kFailed;
      test.level = verdict == PairVerdict::kDrifts && !MostlyUnmatched(pair) ? "drift" : "";
      test.type = PairVerdictName(verdict);
      test.message = FailureMessage(pair, verdict);
      test.details = Details(pair);
    } else if (verdict == PairVerdict::kUnreadable) {
      test.outcome = CaseOutcome::kFailed;
      test.type = PairVerdictName(verdict);
      test.message =
          fmt::format("{} rows with a tensor file that could not be read", pair.counts.unreadable);
      test.details = Details(pair);
    } else if (MostlyUnmatched(pair)) {
      const RowCounts& counts = pair.counts;
      test.outcome = CaseOutcome::kFailed;
      test.type = PairVerdictName(verdict);
      test.message = fmt::format("{} rows were compared, {} of NPU and {} of bench have no partner",
                                 counts.agreeing, counts.npu_only, counts.bench_only);
      test.details = Details(pair);
    }
  }
  for (const auto& [names, side] :
       {std::pair{&summary.npu_only, "bench"}, std::pair{&summary.bench_only, "NPU"}}) {
    for (const std::string& name : *names) {
      cases.push_back({name, 0, CaseOutcome::kFailed, "", "unmatched",
                       fmt::format("the {} side has no such rank", side), ""});
    }
  }
  return cases;
}

std::vector<report::LevelOutcome> LevelsOf(const RunSummary& summary) {
  std::vector<report::LevelOutcome> levels = report::OutcomesOf(kGateLevels);
  // What was not read is not known to agree.
  const bool all = summary.pairs.empty() || summary.totals.unreadable > 0 ||
                   std::any_of(summary.pairs.begin(), summary.pairs.end(), MostlyUnmatched);
  report::SetFound(levels, "error", all || HasErrors(summary));
  report::SetFound(levels, "warning", all || HasWarnings(summary));
  report::SetFound(levels, "different", all || HasDifferences(summary));
  report::SetFound(levels, "drift", all || summary.totals.drifting > 0);
  return levels;
}

}  // namespace msprobe::analysis::compare
