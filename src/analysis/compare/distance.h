// How far apart two rows are by what the dump json alone says of them.
#pragma once

#include <optional>
#include <string_view>

#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/side.h"

namespace msprobe::analysis::compare {

// From the four statistics, or the value of a scalar argument. relative is the largest of
//   |d Max| / A, |d Min| / A, |d Mean| / RMS, |d Norm| / Norm
// with A = the largest finite |Max|, |Min| and RMS = Norm / sqrt(elements), all of the bench side
// (the NPU side where the bench's is 0). absolute is the largest of |d Max|, |d Min|, |d Mean| and
// |d Norm| / sqrt(elements). Infinities and NaNs that stand on both sides are equal. Rows without
// numbers are not comparable.
Distance StatisticsDistance(const SideRow& npu, const SideRow& bench);

// Equal checksums are identical. Otherwise the statistics, which a dump with checksums holds too,
// say how far apart; without them the row is comparable, not identical, and its distances are 0.
Distance Md5Distance(const SideRow& npu, const SideRow& bench);

// The factor, less 1, by which Max, Min, Mean and Norm of one side are the other side's, all of
// them within their digits; empty where they are not, where it is too close to 1 for float32 to
// tell, or where one number is all that the statistics show. Errors in random directions move the
// largest, the smallest and the sum of squares each in its own way: this is a scale that differs.
std::optional<double> CommonFactor(const SideRow& npu, const SideRow& bench);

// The product of a shape text such as "[2, 3]"; 1 for "[]" and for anything else.
double ElementCount(std::string_view shape);

}  // namespace msprobe::analysis::compare
