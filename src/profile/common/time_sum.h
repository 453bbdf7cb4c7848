// Arithmetic with times that files give, which may be anything.
#pragma once

#include <cmath>
#include <limits>

#include "src/profile/common/time_text.h"

namespace msprobe::profile {

// The largest or the smallest number where 64 bits do not hold the sum: calls that overlap can
// last longer together than any clock runs.
inline Nanoseconds SumOfTimes(Nanoseconds a, Nanoseconds b) {
  Nanoseconds sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    return b > 0 ? std::numeric_limits<Nanoseconds>::max()
                 : std::numeric_limits<Nanoseconds>::min();
  }
  return sum;
}

// The nearest time; the largest or the smallest one beyond 64 bits, 0 for NaN.
inline Nanoseconds NanosecondsOf(double microseconds) {
  const double rounded = std::round(microseconds * 1000);
  if (std::isnan(rounded)) {
    return 0;
  }
  if (rounded >= 0x1p63) {
    return std::numeric_limits<Nanoseconds>::max();
  }
  return rounded <= -0x1p63 ? std::numeric_limits<Nanoseconds>::min()
                            : static_cast<Nanoseconds>(rounded);
}

}  // namespace msprobe::profile
