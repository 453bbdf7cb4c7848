#include "src/analysis/compare/pair_result.h"

namespace msprobe::analysis::compare {

std::string_view CompareModeName(CompareMode mode) {
  switch (mode) {
    case CompareMode::kRealData:
      return "real data";
    case CompareMode::kStatistics:
      return "statistics";
    case CompareMode::kMd5:
      return "md5";
  }
  return "statistics";
}

std::string_view VerdictText(Verdict verdict) {
  switch (verdict) {
    case Verdict::kEmpty:
      return "";
    case Verdict::kYes:
      return "Yes";
    case Verdict::kNo:
      return "No";
    case Verdict::kWarning:
      return "Warning";
    case Verdict::kPass:
      return "pass";
    case Verdict::kDifferent:
      return "Different";
    case Verdict::kUnmatched:
      return "Unmatched";
    case Verdict::kNone:
      return "None";
    case Verdict::kNotAvailable:
      return kNotApplicable;
  }
  return "";
}

}  // namespace msprobe::analysis::compare
