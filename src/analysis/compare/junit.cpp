#include "src/analysis/compare/junit.h"

#include <vector>

#include <fmt/format.h>

#include "src/analysis/compare/run_verdict.h"
#include "src/report/junit.h"

namespace msprobe::analysis {
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
      return fmt::format(
          "{} rows are apart by more than noise; rounding that piled up explains them",
          pair.counts.drifting);
    case PairVerdict::kUnequalBits:
      return fmt::format("{} rows are not bit-equal", pair.counts.agreeing - pair.counts.identical);
    default:
      return fmt::format("{} rows differ", pair.counts.differing);
  }
}

}  // namespace

std::string JunitXml(const RunSummary& summary, bool drift_fails) {
  using report::JunitOutcome;
  std::vector<report::JunitCase> cases;
  for (const PairSummary& pair : summary.pairs) {
    const PairVerdict verdict = VerdictOf(pair);
    report::JunitCase& one = cases.emplace_back();
    one.name = PairName(pair);
    one.seconds =
        pair.timings.load_seconds + pair.timings.compare_seconds + pair.timings.write_seconds;
    if (verdict == PairVerdict::kFailed) {
      one.outcome = JunitOutcome::kError;
      one.type = "not compared";
      one.message = pair.error;
    } else if (verdict == PairVerdict::kNothingCompared) {
      one.outcome = JunitOutcome::kFailed;
      one.type = PairVerdictName(verdict);
      one.message = NothingComparedHint(pair);
      one.details = Details(pair);
    } else if (verdict == PairVerdict::kDiffers ||
               (verdict == PairVerdict::kDrifts && drift_fails) ||
               verdict == PairVerdict::kUnequalBits) {
      one.outcome = JunitOutcome::kFailed;
      one.type = PairVerdictName(verdict);
      one.message = FailureMessage(pair, verdict);
      one.details = Details(pair);
    } else if (MostlyUnmatched(pair)) {
      const RowCounts& counts = pair.counts;
      one.outcome = JunitOutcome::kFailed;
      one.type = PairVerdictName(verdict);
      one.message = fmt::format("{} rows were compared, {} of NPU and {} of bench have no partner",
                                counts.agreeing, counts.npu_only, counts.bench_only);
      one.details = Details(pair);
    }
  }
  for (const auto& [names, side] :
       {std::pair{&summary.npu_only, "bench"}, std::pair{&summary.bench_only, "NPU"}}) {
    for (const std::string& name : *names) {
      cases.push_back({name, 0, JunitOutcome::kFailed, "unmatched",
                       fmt::format("the {} side has no such rank", side), ""});
    }
  }
  return report::JunitXml("compare", cases, summary.seconds);
}

}  // namespace msprobe::analysis
