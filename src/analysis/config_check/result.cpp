#include "src/analysis/config_check/result.h"

#include <algorithm>

namespace msprobe::analysis::config_check {

bool HasErrors(const CompareRun& run) {
  return std::any_of(run.checks.begin(), run.checks.end(),
                     [](const CheckResult& check) { return !check.passed; });
}

bool ComparedNothing(const CompareRun& run) {
  if (run.gate_needs_missing) {
    return true;
  }
  const auto compared = [](const CheckResult& check) { return check.compared; };
  return std::none_of(run.checks.begin(), run.checks.end(), compared) ||
         std::any_of(run.checks.begin(), run.checks.end(), [](const CheckResult& check) {
           const bool recorded = check.part == Part::kDataset || check.part == Part::kWeights;
           return recorded && !check.compared;
         });
}

bool HasWarnings(const CompareRun& run) {
  return !run.gaps.empty() || !run.missing.empty() ||
         std::any_of(run.checks.begin(), run.checks.end(),
                     [](const CheckResult& check) { return check.warnings > 0; }) ||
         std::any_of(run.findings.begin(), run.findings.end(),
                     [](const Finding& finding) { return finding.severity == Severity::kWarning; });
}

Verdict VerdictOf(const CompareRun& run) {
  const auto compared = [](const CheckResult& check) { return check.compared; };
  if (std::none_of(run.checks.begin(), run.checks.end(), compared)) {
    return Verdict::kNothingCompared;
  }
  const bool only_nan =
      std::all_of(run.checks.begin(), run.checks.end(),
                  [](const CheckResult& check) { return check.errors == check.nan_errors; });
  return HasErrors(run)         ? (only_nan ? Verdict::kSameButNan : Verdict::kDifferent)
         : !run.missing.empty() ? Verdict::kSameInPart
         : HasWarnings(run)     ? Verdict::kWarnings
                                : Verdict::kSame;
}

size_t LogSettingsRun::different() const {
  return static_cast<size_t>(std::count_if(settings.begin(), settings.end(),
                                           [](const LogSetting& s) { return !s.equal; }));
}

size_t LogSettingsRun::common() const {
  return static_cast<size_t>(
      std::count_if(settings.begin(), settings.end(),
                    [](const LogSetting& s) { return s.present[0] && s.present[1]; }));
}

}  // namespace msprobe::analysis::config_check
