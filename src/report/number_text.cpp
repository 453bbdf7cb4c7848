#include "src/report/number_text.h"

#include <cmath>

#include "src/base/numbers.h"

namespace msprobe::report {

std::string NumberText(double value, int digits) {
  if (std::isnan(value)) {
    return "NaN";
  }
  if (std::isinf(value)) {
    return value > 0 ? "Infinity" : "-Infinity";
  }
  std::string text;
  base::AppendGeneral(value, digits, text);
  return text;
}

}  // namespace msprobe::report
