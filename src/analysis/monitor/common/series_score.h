// How far the numbers of a series leave what is usual for it: what `top` and `report` sort by. By
// median and median absolute deviation, because the very outliers that are looked for would widen a
// mean and a standard deviation until nothing stands out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace msprobe::analysis::monitor {

struct SeriesScore {
  double score = 0;  // largest |value - median| in units of 1.4826 * MAD; 0 below three values
  size_t at = 0;     // index of that value
  uint64_t non_finite = 0;
  size_t first_non_finite = 0;  // index; of no meaning when there is none
};

// Only finite values enter the score. A spread below a thousandth of the median counts as that
// thousandth: a constant series that moves in its last digit is not news.
SeriesScore ScoreSeries(std::span<const double> values, std::vector<double>& scratch);

// The score of one value against the values before it, of the same rule; 0 below three of them.
double ScoreAgainst(double value, std::span<const double> history, std::vector<double>& scratch);

}  // namespace msprobe::analysis::monitor
