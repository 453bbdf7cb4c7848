// Distances between the two sides of a row, and which of them are noise.
//
// A dump holds Max, Min, Mean and Norm of a tensor, perhaps a checksum. The distance of two rows is
// relative to their scale, the largest over the four. It is noise if rounding to the coarser dtype
// may cause it: some units of float32 (sums in another order), about one unit of 16 bits, or as
// much as repetitions of the call showed. A stored value (a weight) has no noise: it is equal, or
// equal after one rounding. Rounding is monotone, hence its Max and Min must then be equal exactly.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "src/analysis/compare/divergence_thresholds.h"
#include "src/analysis/compare/options.h"
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

// The two ways a value comes to be.
enum class Provenance : uint8_t {
  kComputed,  // by calls that round: a few units in the last place are noise
  kStored,    // a weight or running statistic: loaded, not computed, so exactly equal, or rounded
              // once to the coarser dtype
};

// The noise rules of the dtypes of one comparison. Not thread-safe: one per thread.
class Agreement {
 public:
  Agreement(const NoiseRules& rules, CompareMode mode) : rules_(rules), mode_(mode) {}

  // `distance` must be comparable. `largest_relative`: the largest |n - b| / |b| of any element
  // where tensors were read; 0 where not known.
  bool Agrees(const SideRow& npu, const SideRow& bench, const Distance& distance,
              Provenance provenance, double largest_relative = 0) const;

  // The relative distance that rounding alone may cause in a computed row, tolerances included:
  // the measured noise floor, or else what its dtypes let expect.
  double Noise(const SideRow& npu, const SideRow& bench) const;
  // By the dtypes alone.
  double DTypeNoise(const SideRow& npu, const SideRow& bench) const;

  // True when the two sides round to different floating dtypes, so that noise accumulates from call
  // to call.
  bool RoundsDifferently(const SideRow& npu, const SideRow& bench) const;

  // True for floating and complex tensors: the values that carry rounding noise.
  bool IsFloating(const SideRow& row) const { return Epsilon(row) > 0; }

  // The distance from 1 to the next number of the row's dtype; 0 for exact types and non-tensors.
  double Epsilon(const SideRow& row) const;

  // Whether Mean and Norm of equal tensors are equal, too: both dumps sum in the same way. Where
  // they do not (another device made the statistics), sums of a stored value may differ by
  // rounding. True by default.
  void SetSumsAreExact(bool exact) { sums_are_exact_ = exact; }

 private:
  bool StoredAgrees(const SideRow& npu, const SideRow& bench, const Distance& distance,
                    double largest_relative) const;

  const NoiseRules rules_;
  const CompareMode mode_;
  bool sums_are_exact_ = true;
  struct KnownDType {
    std::string_view text;
    double epsilon;
  };
  mutable std::vector<KnownDType> known_;  // a cache: the few dtype texts of a dump
};

// The measured noise floor: how far two results of a call may be apart by its recorded repetitions
// at either side or both: the root of the sum of both squares; 0 where none are recorded.
double MeasuredNoise(const SideRow& npu, const SideRow& bench);

// The largest relative error of any element, which real data metrics hold; 0 where there is none.
double LargestRelativeOf(const RowResult& row, CompareMode mode);

// True when Max and Min of both rows are equal: of two stored tensors whose Mean or Norm differ in
// the last digits only, the sums differ and not the tensors.
bool SameExtremes(const SideRow& npu, const SideRow& bench);

}  // namespace msprobe::analysis::compare
