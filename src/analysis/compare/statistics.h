// Metrics and verdicts of rows that have only statistics or checksums.
#pragma once

#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/side.h"

namespace msprobe::analysis::compare {

// Every figure that decides a verdict or a colour of a row, in one place: judging and the texts
// that give the reason both take it from here, so that a text cannot name another figure than the
// one that was applied. The values are those of the Python tools: users hold tables of both side by
// side. Comparisons with them are strict (a value that equals a limit is within it), but for the
// growth in decades, which one decade reaches.
// The noise that decides about a divergence is not here, as it is computed per dtype:
// error_bound.h, agreement.h.

// The verdict Yes or No of a row of tensors.
namespace accuracy {
inline constexpr double kGoodCosine = 0.99;   // below it: No, if also beyond kGoodMaxAbs
inline constexpr double kGoodMaxAbs = 0.001;  // largest difference of two elements
inline constexpr double kLowestCosine = 0.9;  // below it: No in any case
inline constexpr double kLargestMaxAbs = 1;   // above it: No in any case
}  // namespace accuracy

// The verdict Warning of a row of statistics.
namespace statistics_warning {
inline constexpr double kShare = 0.5;             // of the statistic's magnitude
inline constexpr double kMagnitudeFloor = 1e-10;  // added to the magnitude
}  // namespace statistics_warning

// Red and yellow rows of 8.1.1. "Of the maximum" is |difference of maxima| / bench maximum.
namespace highlight {
inline constexpr double kHugeError = 1e10;                // red: by itself
inline constexpr double kRelativeError = 0.5;             // red: an output's, of the maximum
inline constexpr double kGoodInputRatio = 0.9;            // red: within one thousandth, input above
inline constexpr double kBadOutputRatio = 0.6;            //      and output below
inline constexpr double kErrorGrowthDecades = 1;          // yellow: decades from input to output
inline constexpr double kAppearedRelativeError = 0.1;     // yellow: an output's, of the maximum,
inline constexpr double kSmallInputRelativeError = 0.01;  //         with an input's below
inline constexpr double kRatioLoss = 0.1;   // yellow: share within one thousandth lost
inline constexpr double kCosineLoss = 0.1;  // yellow: cosine lost
}  // namespace highlight

// Errors and warnings of the 26.x line, per call.
namespace judging_v26 {
inline constexpr double kSmallInputError = 0.1;   // relative error of the norm: all inputs below,
inline constexpr double kLargeOutputError = 0.5;  // an output above: an error
inline constexpr double kGoodInputRatio = 0.9;    // within one thousandth: all inputs above,
inline constexpr double kBadOutputRatio = 0.1;    // an output below: an error
inline constexpr double kErrorFromNothing = 0.1;  // no error of inputs, an output above: a warning
inline constexpr double kErrorGrowth = 10;        // from inputs to outputs: a warning
inline constexpr double kGoodInputCosine = 0.9;   // all inputs above,
inline constexpr double kCosineLoss = 0.1;        // an output lower by this: a warning
}  // namespace judging_v26

// Differences and relative errors of Max, Min, Mean and Norm, and the verdict, for a matched pair.
void CompareStatistics(const SideRow& npu, const SideRow& bench, RowResult& result);

// The verdict on two checksums, for a matched pair.
void CompareChecksums(const SideRow& npu, const SideRow& bench, RowResult& result);

// Sets `fill` and appends the reasons to `message`. Rows are judged by themselves and, within one
// call, each output against each input. Not for checksums and debug saves, which are never
// coloured.
void HighlightRows(const Side& npu, const Side& bench, PairResult& result);

}  // namespace msprobe::analysis::compare
