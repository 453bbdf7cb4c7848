#include "src/analysis/accuracy/common/operator_name.h"

#include <algorithm>

namespace msprobe::analysis::accuracy {

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

}  // namespace msprobe::analysis::accuracy
