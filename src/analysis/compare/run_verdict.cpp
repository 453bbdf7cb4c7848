#include "src/analysis/compare/run_verdict.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <tuple>

#include <fmt/format.h>

#include "src/dump/call_facts.h"

namespace msprobe::analysis::compare {

std::string_view PairVerdictName(PairVerdict verdict) {
  switch (verdict) {
    case PairVerdict::kIdentical:
      return "identical";
    case PairVerdict::kAgrees:
      return "agree";
    case PairVerdict::kUnequalBits:
      return "not bit-equal";
    case PairVerdict::kUnmatched:
      return "unmatched";
    case PairVerdict::kUnreadable:
      return "unreadable";
    case PairVerdict::kNothingCompared:
      return "nothing compared";
    case PairVerdict::kDrifts:
      return "drift";
    case PairVerdict::kDiffers:
      return "differ";
    case PairVerdict::kFailed:
      return "failed";
  }
  return "failed";
}

PairVerdict VerdictOf(const PairSummary& pair) {
  const RowCounts& counts = pair.counts;
  if (!pair.error.empty()) {
    return PairVerdict::kFailed;
  }
  if (pair.divergence.first_origin || counts.differing > 0) {
    return PairVerdict::kDiffers;
  }
  if (counts.drifting > 0) {
    return PairVerdict::kDrifts;
  }
  if (counts.agreeing == 0) {
    return PairVerdict::kNothingCompared;
  }
  if (counts.unreadable > 0) {
    return PairVerdict::kUnreadable;
  }
  if (counts.npu_only + counts.bench_only + counts.shape_mismatch + counts.dtype_mismatch > 0) {
    return PairVerdict::kUnmatched;
  }
  if (counts.identical == counts.agreeing) {
    return PairVerdict::kIdentical;
  }
  return pair.mode == CompareMode::kMd5 ? PairVerdict::kUnequalBits : PairVerdict::kAgrees;
}

PairVerdict VerdictOf(const RunSummary& summary) {
  if (summary.pairs.empty()) {
    return PairVerdict::kNothingCompared;
  }
  PairVerdict worst = summary.npu_only.empty() && summary.bench_only.empty()
                          ? PairVerdict::kIdentical
                          : PairVerdict::kUnmatched;
  for (const PairSummary& pair : summary.pairs) {
    worst = std::max(worst, VerdictOf(pair));
  }
  return worst;
}

std::string NothingComparedHint(const PairSummary& pair) {
  if (VerdictOf(pair) != PairVerdict::kNothingCompared) {
    return {};
  }
  const RowCounts& counts = pair.counts;
  if (counts.rows == 0) {
    return "the dump under test holds no rows; if a --filter was given, nothing matches it";
  }
  if (counts.matched > 0) {
    return "rows have partners, but no values on both sides: were both dumps made with the same "
           "task, and do their "
           "tensor files still exist?";
  }
  if (counts.shape_mismatch + counts.dtype_mismatch > 0 && counts.npu_only == 0) {
    return "names match, shapes or dtypes do not: are these dumps of the same model and batch? -dm "
           "FILE pairs rows regardless of their shape";
  }
  const auto takes_one_kind = [](const std::string& level) {
    return level == "L0" || level == "L1";
  };
  if (pair.level != pair.bench_level && takes_one_kind(pair.level) &&
      takes_one_kind(pair.bench_level)) {
    return fmt::format(
        "the sides were captured at different levels, {} and {}, which record other calls: capture "
        "both at the same level, mix for modules and functions",
        pair.level, pair.bench_level);
  }
  if (pair.npu_framework != pair.bench_framework) {
    return "the frameworks name their calls differently: -cm (cells and modules, for dumps of "
           "level L0 or mix), -am "
           "(functions, level L1) or -lm FILE (layers) translate them";
  }
  return "no name exists on both sides: are these dumps of the same model? If modules were "
         "renamed, -cm FILE; if only call numbers differ, -f; for anything else -dm FILE";
}

std::string PairName(const PairSummary& pair) {
  std::string name;
  if (pair.step) {
    name = fmt::format("step{}", *pair.step);
  }
  if (pair.rank) {
    name += fmt::format("{}rank{}", name.empty() ? "" : "/", *pair.rank);
  }
  if (name.empty()) {
    name = std::filesystem::path(pair.npu_path).filename().string();
  } else if (pair.is_debug) {
    name += " (debug)";
  }
  return name;
}

std::string PointPlace(const DivergencePoint& point) {
  // A module's own entry names its layer; an input is one of that entry.
  if (point.layer.empty() || (point.kind == OriginKind::kInput && point.parent_module.empty())) {
    return point.entry_name;
  }
  if (point.kind == OriginKind::kParameter || point.kind == OriginKind::kOptimizer ||
      point.parent_module.empty()) {
    return point.layer;
  }
  return fmt::format("{} in {}", point.entry_name, point.layer);
}

std::string PointTitle(const DivergencePoint& point) {
  switch (point.kind) {
    case OriginKind::kParameter:
      return fmt::format("a parameter of {}", PointPlace(point));
    case OriginKind::kInput: {
      if (point.from_other_rank) {
        return fmt::format("data from another rank in {}", PointPlace(point));
      }
      const std::string_view argument = point.argument
                                            ? point.argument->name
                                            : dump::ArgumentOf(point.entry_name, point.row_name);
      return fmt::format("{} of {}", argument.empty() ? "a value" : argument, PointPlace(point));
    }
    case OriginKind::kOptimizer:
      return fmt::format("the optimizer's update of a parameter of {}", PointPlace(point));
    case OriginKind::kDType:
      return fmt::format("another dtype in {}", PointPlace(point));
    case OriginKind::kUnmatchedCall:
      return fmt::format("the call {}, {}", point.entry_name, point.note);
    case OriginKind::kComputation:
      break;
  }
  return fmt::format("{} {}", point.is_saved_value ? "the saved value" : "the computation of",
                     PointPlace(point));
}

std::optional<size_t> LeadingPair(const RunSummary& summary) {
  std::optional<size_t> leading;
  const auto rank_of = [&](size_t index) {
    const PairSummary& pair = summary.pairs[index];
    const DivergencePoint& origin = *pair.divergence.first_origin;
    return std::tuple(pair.step.value_or(0), origin.from_other_rank,
                      UINT64_MAX - pair.counts.differing);
  };
  for (size_t i = 0; i < summary.pairs.size(); ++i) {
    if (summary.pairs[i].divergence.first_origin && (!leading || rank_of(i) < rank_of(*leading))) {
      leading = i;
    }
  }
  return leading;
}

std::string ErrorText(double error) {
  return std::isfinite(error) ? fmt::format("{:.1e}", error) : std::string("not finite");
}

}  // namespace msprobe::analysis::compare
