#include "src/analysis/compare/summary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "src/analysis/compare/call_alignment.h"
#include "src/analysis/compare/run_verdict.h"
#include "src/base/strings.h"

namespace msprobe::analysis::compare {
namespace {

std::string FrameworkName(Framework framework) {
  switch (framework) {
    case Framework::kPyTorch:
      return "pytorch";
    case Framework::kMindSpore:
      return "mindspore";
    case Framework::kUnknown:
      break;
  }
  return "";
}

constexpr std::array<std::string_view, 3> kNonFiniteTexts = {"inf", "-inf", "nan"};

bool IsNonFinite(const StatValue& value) {
  return value.kind == StatKind::kText ? base::IsOneOf(value.text, kNonFiniteTexts)
                                       : value.is_numeric() && !std::isfinite(value.number);
}

// Infinities and NaNs among the statistics, the same ones on both sides.
bool SharesNonFinite(const SideRow& npu, const SideRow& bench) {
  bool any = false;
  for (size_t stat = 0; stat < kStatCount; ++stat) {
    const StatValue& n = npu.stats[stat];
    const StatValue& b = bench.stats[stat];
    if (!IsNonFinite(n) && !IsNonFinite(b)) {
      continue;
    }
    const bool same = n.kind == b.kind &&
                      (n.kind == StatKind::kText ? n.text == b.text
                                                 : n.number == b.number || (std::isnan(n.number) &&
                                                                            std::isnan(b.number)));
    if (!same) {
      return false;
    }
    any = true;
  }
  return any;
}

RowCounts CountRows(const Side& npu, const Side& bench, const PairFindings& findings) {
  RowCounts counts;
  counts.rows = findings.result.rows.size();
  counts.bench_only = findings.result.bench_only_count;
  const SharedKinds kinds = SharedKindsOf(npu, bench);
  const auto is_recorded_by_both = [&](const RowResult& row) {
    return kinds.HasAll() ||
           kinds.Has(dump::ParseEntryName(npu.entries[npu.rows[row.pair.npu].entry].name));
  };
  counts.shape_mismatch = findings.result.shape_mismatch_count;
  counts.dtype_mismatch = findings.result.dtype_mismatch_count;
  counts.unreadable = findings.result.unreadable_count;
  for (size_t i = 0; i < findings.result.rows.size(); ++i) {
    const RowResult& row = findings.result.rows[i];
    counts.red += row.fill == report::Fill::kRed ? 1 : 0;
    counts.yellow += row.fill == report::Fill::kYellow ? 1 : 0;
    ++counts.by_verdict[static_cast<size_t>(row.verdict)];
    if (row.pair.bench == kNoRow && !is_recorded_by_both(row)) {
      ++counts.other_level;
      continue;
    }
    const RowConcern concern = ConcernOf(npu, bench, row, findings.divergence.rows[i]);
    counts.failing += concern == RowConcern::kError ? 1 : 0;
    counts.suspicious += concern == RowConcern::kWarning ? 1 : 0;
    if (row.pair.bench == kNoRow) {
      counts.npu_only += row.pair.outcome == MatchOutcome::kNoBenchRow ? 1 : 0;
      continue;
    }
    ++counts.matched;
    switch (findings.divergence.rows[i]) {
      case RowStanding::kNotCompared:
        ++counts.not_compared;
        break;
      case RowStanding::kIdentical:
        ++counts.identical;
        ++counts.agreeing;
        break;
      case RowStanding::kAgrees:
        ++counts.agreeing;
        break;
      case RowStanding::kDrifts:
        ++counts.drifting;
        break;
      case RowStanding::kDiffers:
        ++counts.differing;
        break;
    }
  }
  return counts;
}

}  // namespace

RowConcern ConcernOf(const Side& npu, const Side& bench, const RowResult& row,
                     RowStanding standing) {
  if (standing == RowStanding::kIdentical ||
      (row.pair.bench != kNoRow && standing <= RowStanding::kAgrees &&
       SharesNonFinite(npu.rows[row.pair.npu], bench.rows[row.pair.bench]))) {
    return RowConcern::kNone;
  }
  if (row.fill == report::Fill::kRed || row.verdict == Verdict::kNo ||
      row.verdict == Verdict::kDifferent || row.verdict == Verdict::kUnmatched ||
      row.distance.nonfinite_differs) {
    return RowConcern::kError;
  }
  return row.fill == report::Fill::kYellow || row.verdict == Verdict::kWarning
             ? RowConcern::kWarning
             : RowConcern::kNone;
}

void RowCounts::Add(const RowCounts& other) {
  rows += other.rows;
  matched += other.matched;
  npu_only += other.npu_only;
  shape_mismatch += other.shape_mismatch;
  dtype_mismatch += other.dtype_mismatch;
  bench_only += other.bench_only;
  other_level += other.other_level;
  identical += other.identical;
  agreeing += other.agreeing;
  drifting += other.drifting;
  differing += other.differing;
  not_compared += other.not_compared;
  unreadable += other.unreadable;
  red += other.red;
  yellow += other.yellow;
  failing += other.failing;
  suspicious += other.suspicious;
  for (size_t i = 0; i < kVerdictCount; ++i) {
    by_verdict[i] += other.by_verdict[i];
  }
}

PairSummary SummarizePair(const PlannedPair& plan, const Side& npu, const Side& bench,
                          const PairFindings& findings) {
  PairSummary summary;
  summary.npu_path = npu.json_path.string();
  summary.bench_path = bench.json_path.string();
  summary.step = plan.input.step;
  summary.rank = plan.input.rank;
  summary.is_debug = plan.is_debug;
  summary.task = npu.header.task.value_or("");
  summary.level = npu.header.level.value_or("");
  summary.bench_level = bench.header.level.value_or("");
  summary.npu_framework = FrameworkName(npu.framework);
  summary.bench_framework = FrameworkName(bench.framework);
  summary.mode = findings.result.mode;
  summary.counts = CountRows(npu, bench, findings);
  summary.compared_bytes = findings.result.compared_bytes;
  summary.divergence = findings.divergence;
  summary.timings = findings.timings;
  return summary;
}

void FinishSummary(RunSummary& summary) {
  for (size_t i = 0; i < summary.pairs.size(); ++i) {
    const PairSummary& pair = summary.pairs[i];
    summary.totals.Add(pair.counts);
    summary.failed_pairs += pair.error.empty() ? 0 : 1;
    const uint64_t worst =
        summary.worst_pair ? summary.pairs[*summary.worst_pair].counts.differing : 0;
    if (pair.counts.differing > worst) {
      summary.worst_pair = i;
    }
  }
}

bool MostlyUnmatched(const PairSummary& pair) {
  const RowCounts& counts = pair.counts;
  const uint64_t compared = counts.agreeing + counts.drifting + counts.differing;
  return VerdictOf(pair) == PairVerdict::kNothingCompared || counts.npu_only > compared ||
         counts.bench_only > compared;
}

}  // namespace msprobe::analysis::compare
