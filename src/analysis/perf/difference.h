// The one rule by which two numbers are set against each other. Sheets are ordered by rounded
// differences, so that rounding in another way than Python does would not only change a last digit
// but move rows.
#pragma once

namespace msprobe::analysis::perf {

// As Python's round(value, digits): the nearest decimal of the exact binary value, ties to even.
// Values without decimals, infinities and NaN stay as they are.
double RoundToDigits(double value, int digits);

// Never NaN, so that rows can be sorted by it: what two infinities leave open is 0 and 1.
struct Difference {
  double difference = 0;  // comparison - base, two decimals
  double ratio = 1;       // comparison / base, four decimals; both 0: 1; only base 0: infinite
};
Difference Differ(double base, double comparison);

}  // namespace msprobe::analysis::perf
