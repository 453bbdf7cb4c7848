#include "src/analysis/compare/document_cases.h"

#include <algorithm>

#include <fmt/format.h>

#include "src/analysis/compare/document.h"
#include "src/analysis/compare/run_verdict.h"
#include "src/base/strings.h"

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

// Rows of one side alone, or of other shapes. Where a pair drifts, they follow from it: what is
// chosen and how often depends on values. A call too many of another cause would have been an
// origin.
uint64_t UnmatchedRows(const PairSummary& pair) {
  const RowCounts& counts = pair.counts;
  return VerdictOf(pair) == PairVerdict::kDrifts
             ? 0
             : counts.npu_only + counts.bench_only + counts.shape_mismatch + counts.dtype_mismatch;
}

// Not enough was compared for any gate to pass.
bool LeavesOpen(const PairSummary& pair) {
  return pair.counts.unreadable > 0 || MostlyUnmatched(pair);
}

// The gate levels that a pair fails, by the words of kGateLevels. The only place that decides it:
// levels of the run, exit code and JUnit report follow.
std::vector<std::string> FailedLevels(const PairSummary& pair) {
  const PairVerdict verdict = VerdictOf(pair);
  const bool all = LeavesOpen(pair);
  const bool differs = all || verdict == PairVerdict::kDiffers;
  std::vector<std::string> levels;
  if (differs || pair.counts.failing > 0) {
    levels.emplace_back("error");
  }
  if (all || pair.counts.suspicious > 0) {
    levels.emplace_back("warning");
  }
  if (differs || verdict == PairVerdict::kUnequalBits || UnmatchedRows(pair) > 0) {
    levels.emplace_back("different");
  }
  if (all || pair.counts.drifting > 0) {
    levels.emplace_back("drift");
  }
  return levels;
}

// The level by which a pair fails where no gate asks: a divergence does, all else on request.
std::string LevelUnasked(const PairSummary& pair, const std::vector<std::string>& levels) {
  const PairVerdict verdict = VerdictOf(pair);
  return verdict == PairVerdict::kDiffers || verdict == PairVerdict::kUnequalBits ? "different"
         : base::IsOneOf("different", levels)                                     ? "drift"
                                                                                  : levels.front();
}

std::string FailureMessage(const PairSummary& pair) {
  const RowCounts& counts = pair.counts;
  switch (VerdictOf(pair)) {
    case PairVerdict::kNothingCompared:
      return NothingComparedHint(pair);
    case PairVerdict::kDiffers:
      return pair.divergence.first_origin
                 ? fmt::format("{} rows differ; first origin: {}", counts.differing,
                               PointTitle(*pair.divergence.first_origin))
                 : fmt::format("{} rows differ", counts.differing);
    case PairVerdict::kDrifts:
      return fmt::format("{} rows are beyond rounding noise; accumulated rounding explains them",
                         counts.drifting);
    case PairVerdict::kUnequalBits:
      return fmt::format("{} rows are not bit-equal", counts.agreeing - counts.identical);
    case PairVerdict::kUnreadable:
      return fmt::format("{} rows with a tensor file that could not be read", counts.unreadable);
    default:
      break;
  }
  if (UnmatchedRows(pair) > 0) {
    return fmt::format(
        "{} rows were compared, {} of NPU and {} of bench have no partner", counts.agreeing,
        counts.npu_only + counts.shape_mismatch + counts.dtype_mismatch, counts.bench_only);
  }
  return fmt::format("{} rows are red or fail their threshold, {} are yellow or warnings",
                     counts.failing, counts.suspicious);
}

}  // namespace

std::vector<report::TestCase> CasesOf(const RunSummary& summary) {
  using report::CaseOutcome;
  std::vector<report::TestCase> cases;
  for (const PairSummary& pair : summary.pairs) {
    report::TestCase& test = cases.emplace_back();
    test.name = PairName(pair);
    test.seconds =
        pair.timings.load_seconds + pair.timings.compare_seconds + pair.timings.write_seconds;
    if (!pair.error.empty()) {
      test.outcome = CaseOutcome::kError;
      test.type = "not compared";
      test.message = pair.error;
      continue;
    }
    std::vector<std::string> levels = FailedLevels(pair);
    if (levels.empty()) {
      continue;
    }
    test.outcome = CaseOutcome::kFailed;
    test.level = LeavesOpen(pair) ? "" : LevelUnasked(pair, levels);
    test.further_levels = std::move(levels);
    test.type = PairVerdictName(VerdictOf(pair));
    test.message = FailureMessage(pair);
    test.details = Details(pair);
  }
  for (const auto& [names, side] :
       {std::pair{&summary.npu_only, "bench"}, std::pair{&summary.bench_only, "NPU"}}) {
    for (const std::string& name : *names) {
      cases.push_back({name,
                       0,
                       CaseOutcome::kFailed,
                       "different",
                       "unmatched",
                       fmt::format("the {} side has no such rank", side),
                       "",
                       {"warning"}});
    }
  }
  return cases;
}

std::vector<report::LevelOutcome> LevelsOf(const RunSummary& summary) {
  std::vector<report::LevelOutcome> levels = report::OutcomesOf(kGateLevels);
  const auto find = [&](const std::string& word) { report::SetFound(levels, word, true); };
  const RowCounts& totals = summary.totals;
  if (totals.failing > 0) {
    levels[0].what = base::Plural(totals.failing, "row") + " red or beyond a threshold";
  }
  if (totals.suspicious > 0) {
    levels[1].what = base::Plural(totals.suspicious, "row") + " yellow or with a warning";
  }
  for (const PairSummary& pair : summary.pairs) {
    const std::vector<std::string> failed = FailedLevels(pair);
    std::for_each(failed.begin(), failed.end(), find);
  }
  if (!summary.npu_only.empty() || !summary.bench_only.empty()) {
    find("warning");
    find("different");
  }
  if (summary.pairs.empty()) {
    for (report::LevelOutcome& level : levels) {
      level.found = true;
    }
  }
  return levels;
}

}  // namespace msprobe::analysis::compare
