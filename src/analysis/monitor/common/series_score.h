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
  uint64_t non_finite = 0;      // without what was not measured, see table_rows.h
  size_t first_non_finite = 0;  // index; of no meaning when there is none
};

// The unit of rounding of numbers that nobody describes: of the Python tool, whose tables say it
// nowhere. The decimals that the numbers have, six at least, since those of a few numbers may all
// end earlier; 0 once a number has too many to be rounded.
class RoundingSeen {
 public:
  void Take(double value);
  double unit() const;

 private:
  int digits_ = 6;
  double scale_ = 1e6;
};

// Only finite values enter the score. A spread counts as a thousandth of the median at least, since
// a constant series that moves in its last digit is not news, and as `unit`, which the values are
// rounded to, since a jump from one multiple to the next may have been none.
SeriesScore ScoreSeries(std::span<const double> values, std::vector<double>& scratch,
                        double unit = 0);

// The score of one value against the values before it, of the same rule; 0 below three of them.
double ScoreAgainst(double value, std::span<const double> history, std::vector<double>& scratch,
                    double unit = 0);

}  // namespace msprobe::analysis::monitor
