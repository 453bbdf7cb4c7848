#include "src/analysis/perf/difference.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace msprobe::analysis::perf {

double RoundToDigits(double value, int digits) {
  // From 2^53 on a double has no decimals left.
  if (!(std::fabs(value) < 9007199254740992.0)) {
    return value;
  }
  std::array<char, 64> text;
  const auto written = std::to_chars(text.data(), text.data() + text.size(), value,
                                     std::chars_format::fixed, digits);
  double rounded = value;
  std::from_chars(text.data(), written.ptr, rounded);
  return rounded;
}

Difference Differ(double base, double comparison) {
  Difference result;
  result.difference = RoundToDigits(comparison - base, 2) + 0.0;  // -0.0 becomes 0.0
  if (base == 0) {
    result.ratio = comparison == 0 ? 1.0 : std::numeric_limits<double>::infinity();
  } else {
    result.ratio = RoundToDigits(comparison / base, 4);
  }
  if (std::isnan(result.difference)) {
    result.difference = 0;
  }
  if (std::isnan(result.ratio)) {
    result.ratio = 1;
  }
  return result;
}

}  // namespace msprobe::analysis::perf
