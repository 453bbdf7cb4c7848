#include "src/analysis/accuracy/common/metric_number.h"

#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "src/analysis/accuracy/common/columns.h"
#include "src/base/number_text.h"
#include "src/tensor/float_bits.h"

namespace msprobe::analysis::accuracy {
namespace {

constexpr int kMostDigits = 9;  // of a float32

// The nearest double of the fewest decimal digits that the narrow type reads as `value`: spelled as
// a double it has just these digits.
double FewestDigits(double value, bool half) {
  for (int digits = 1; digits <= kMostDigits; ++digits) {
    const double candidate =
        std::strtod(fmt::format("{:.{}e}", value, digits - 1).c_str(), nullptr);
    const auto single = static_cast<float>(candidate);
    const float read = half ? tensor::Float16ToFloat(tensor::FloatToFloat16(single)) : single;
    if (static_cast<double>(read) == value) {
      return candidate;
    }
  }
  return value;
}

}  // namespace

std::string CellOf(const MetricNumber& number, int decimals) {
  switch (number.form) {
    case MetricNumber::Form::kNone:
      return std::string(kBlank);
    case MetricNumber::Form::kWhole:
      return "0";
    case MetricNumber::Form::kHalf:
    case MetricNumber::Form::kSingle:
      if (!std::isfinite(number.value)) {
        return base::PythonFloatRepr(number.value);
      }
      return base::PythonFloatRepr(
          FewestDigits(number.value, number.form == MetricNumber::Form::kHalf));
    case MetricNumber::Form::kDouble:
      break;
  }
  return std::isnan(number.value) ? "nan" : fmt::format("{:.{}f}", number.value, decimals);
}

}  // namespace msprobe::analysis::accuracy
