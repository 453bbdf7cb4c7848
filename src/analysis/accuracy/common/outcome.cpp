#include "src/analysis/accuracy/common/outcome.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/tensor/float_bits.h"

namespace msprobe::analysis::accuracy {

std::string FirstLine(std::string_view text) {
  for (const std::string_view line : base::Split(text, '\n')) {
    if (!base::Trim(line).empty()) {
      return std::string(base::Trim(line));
    }
  }
  return {};
}

std::string CountsText(const OutcomeCounts& counts) {
  if (counts.total() == 0) {
    return "none";
  }
  std::string text = base::FormatCount(counts.total()) + ":";
  for (const Outcome outcome :
       {Outcome::kPass, Outcome::kWarning, Outcome::kError, Outcome::kSkip}) {
    if (counts.Of(outcome) > 0) {
      text += fmt::format("{} {} {}", text.ends_with(':') ? "" : ",",
                          base::FormatCount(counts.Of(outcome)), OutcomeText(outcome));
    }
  }
  return text;
}

std::optional<OperatorName> ParseOperatorName(std::string_view name) {
  const auto dots = std::count(name.begin(), name.end(), '.');
  if (dots != 2 && dots != 3) {
    return std::nullopt;
  }
  const size_t first = name.find('.');
  const size_t last = name.rfind('.');
  return OperatorName{name.substr(0, first), name.substr(first + 1, last - first - 1)};
}

std::optional<OutputName> ParseOutputName(std::string_view name) {
  // The operator, the direction, "output", and a number.
  size_t end = name.size();
  std::string_view direction;
  for (int part = 0; part < 3; ++part) {
    const size_t dot = name.substr(0, end).rfind('.');
    if (dot == std::string_view::npos) {
      return std::nullopt;
    }
    direction = name.substr(dot + 1, end - dot - 1);
    end = dot;
  }
  OutputName output;
  output.whole = name.substr(0, end);
  output.is_backward = direction == "backward";
  const std::optional<OperatorName> parts = ParseOperatorName(output.whole);
  if (!parts || (!output.is_backward && direction != "forward")) {
    return std::nullopt;
  }
  output.parts = *parts;
  return output;
}

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
