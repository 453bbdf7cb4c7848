#include "src/perturb/student.h"

#include <cmath>
#include <numbers>

namespace msprobe::perturb {
namespace {

// P(|T| < t): 26.7.3 for odd degrees, 26.7.4 for even ones.
double Within(double t, uint32_t degrees) {
  const double n = degrees;
  const double angle = std::atan(t / std::sqrt(n));
  const double cosine = std::cos(angle);
  const bool is_odd = degrees % 2 == 1;
  double term = is_odd ? cosine : 1;
  double sum = degrees == 1 ? 0 : term;
  for (uint32_t k = is_odd ? 3 : 2; k + 1 < degrees; k += 2) {
    term *= cosine * cosine * (k - 1) / k;
    sum += term;
  }
  const double odd_sum = 2 / std::numbers::pi * (angle + std::sin(angle) * sum);
  return is_odd ? odd_sum : std::sin(angle) * sum;
}

}  // namespace

double StudentQuantile(double confidence, uint32_t degrees) {
  double low = 0;
  double high = 1;
  while (Within(high, degrees) < confidence && high < 1e300) high *= 2;
  // Until both are neighbours.
  for (double middle = (low + high) / 2; middle > low && middle < high; middle = (low + high) / 2) {
    (Within(middle, degrees) < confidence ? low : high) = middle;
  }
  return high;
}

}  // namespace msprobe::perturb
