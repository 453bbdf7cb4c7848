// Every constant of the search for the first divergence, and where it comes from. The search itself
// is described in docs/design/divergence.md.
//
// [derived]: follows from arithmetic or from the source named. [margin]: room above an estimate;
// its value was checked with the planted faults and the benign pairs of tests/diagnosis. Too small,
// and benign pairs get an origin; too large, and faults are missed. [limit]: bounds the work of
// hostile or unusual dumps. [display]: how much is shown.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/tensor/float_limits.h"

namespace msprobe::analysis::compare {

// ---- Noise of one row (agreement.cpp) ----

inline constexpr double kEpsilonFloat32 = tensor::FormatOf(DType::kFloat32).epsilon();
inline constexpr double kEpsilonFloat16 = tensor::FormatOf(DType::kFloat16).epsilon();
inline constexpr double kEpsilonBFloat16 = tensor::FormatOf(DType::kBFloat16).epsilon();
// [derived] Epsilons above this belong to 8- and 16-bit formats.
inline constexpr double kNarrowFrom = 0x1p-16;
// Units of float32 and wider [margin]: sums over thousands of elements in another order, and
// statistics that are summed in float32.
inline constexpr double kWideUnits = 16;
// Units of 16 bits [margin]: kernels accumulate in float32, so that a result differs by the final
// rounding, seldom by two units.
inline constexpr double kNarrowUnits = 2;
// Sides that round to different dtypes [margin]: one more rounding per call.
inline constexpr double kMixedUnits = 4;
// [derived] Least units of a measured noise floor: one rounding on either side.
inline constexpr double kMeasuredLeastUnits = 2;
// [derived] The spacing of float16 below 2^-14.
inline constexpr double kHalfSmallest = 0x1p-24;
// ||rounded - exact|| / ||exact|| of one rounding to nearest, in epsilons [derived]: at most
// 1 / (2 sqrt(3)) = 0.289 over many elements with the least favourable mantissas, and room for
// short tensors.
inline constexpr double kOneRounding = 0.3;
// [margin] The float32 division behind the largest relative error.
inline constexpr double kHalfUnitRoom = 1.0001;
// Whether all statistics have one common factor [derived]: scaling rounds, and so do sums, by units
// of float32; a factor is distinguished from them if it is at least 32 times that.
inline constexpr double kFactorDigits = 4 * 0x1p-23;
inline constexpr double kFactorShare = 1e-3;  // [margin] of the factor's distance from 1
inline constexpr double kFactorFrom = 32 * kFactorDigits;
// [derived] If one element makes up all of Norm, Norm says no more than Max and Min.
inline constexpr double kFewestAlike = 2;

// ---- What inputs and rounding explain: one operator (error_bound.cpp) ----

// [margin] The estimates hold for errors in random directions; an error up to this many times
// larger is not reported.
inline constexpr double kSlack = 5;
// [margin] Calls of which nothing but the name is known, with calls or loops inside.
inline constexpr double kCompositeSlack = 8;
// A composite gradient is scaled by at most this [margin].
inline constexpr double kCompositeLargestScale = 4;
// Rounding inside one call, in units of the accumulating dtype: partial sums of n terms in another
// order grow with sqrt(n) [derived], the factors are margins.
inline constexpr double kUnitsPerRoot = 0.75;
inline constexpr double kOwnUnits = 4;
// [margin] Where fewer elements share a mean and variance, normalising magnifies errors without a
// useful bound.
inline constexpr double kFewPerGroup = 8;
inline constexpr double kSmallGroupSlack = 8;
// [derived] Below this share of the mean square a variance is lost in the rounding of statistics;
// the magnification by a normalisation is then taken to be the root of its inverse.
inline constexpr double kLeastVarianceShare = 1e-12;
inline constexpr double kLargestMagnification = 1e6;
// [margin] Statistics are sums that round as well.
inline constexpr double kScaledSlack = 1.25;
// A softmax multiplies absolute errors of logits by at most this [derived: its Jacobian's norm is
// at most 1/2], relative to an output of at least this share of its largest element [margin].
inline constexpr double kSoftmaxSlope = 0.5;
inline constexpr double kSoftmaxPeakShare = 0.1;
// [margin] How far the largest element of a factor may exceed its RMS and still count.
inline constexpr double kLargestPeak = 8;
// Share of normally distributed values within e of 0, on either side [derived]: the density at 0 is
// 0.4 per standard deviation. Fewer flips than one in 300 tensors are none.
inline constexpr double kFlipDensity = 0.8;
inline constexpr double kFewestFlips = 0.003;

// ---- What inputs and rounding explain: one call of a run (divergence_bounds.cpp) ----

// [margin] Units in the last place that the statistics of two tensors may hide once anything
// differs.
inline constexpr double kHiddenUnits = 8;
// [derived] Of 16 bits: rounded once, a quarter of a unit in the root mean square.
inline constexpr double kHiddenNarrowUnits = 0.25;
// [margin] Units that statistics hide behind an update that depends on signs.
inline constexpr double kHiddenUnitsByChance = 100;
// [margin] The same where tensors were compared, which hide nothing, though a product of matrices
// makes more of single units than of noise.
inline constexpr double kSingleUnitsByChance = 30;
// [margin] Gradients of 16 bits are rounded once more than the call that made them.
inline constexpr double kNarrowGradientSlack = 3.5;
// [margin] Gradients of sides that round to different dtypes; the first on top of the second.
inline constexpr double kMixedGradientSlack = 2;
inline constexpr double kMixedSlack = 2.5;
// [margin] Gradients of several calls and shared weights add up: times the largest error in their
// module.
inline constexpr double kParameterGradientFactor = 8;
// [margin] A row up to this many times its noise no longer agrees, but proves nothing.
inline constexpr double kOriginNoiseFactor = 1.9;
// [margin] An input that no recorded output explains may have come through an unrecorded call,
// which amplifies: it is an origin only from this many times the largest error before it on. A part
// of a tensor may likewise hold all of an error that the statistics of the whole hide.
inline constexpr double kFreshOriginFactor = 8;
// [margin] A gradient up to this many times the rounding of what entered is nothing but rounding.
inline constexpr double kCancelledFactor = 16;
// [margin] Once noise has changed a discrete choice, whole rows of tensors may be other ones.
inline constexpr double kFlippedChoiceError = 0.3;
// Common factor of all statistics [margin]: further from 1 it may be another remainder of what
// cancels; powers of what enters have a multiple of its factor.
inline constexpr double kLargestFactor = 0.25;
inline constexpr double kFactorSlack = 4;
// [margin] Elements of one row or channel share errors: however many there are, no more are
// independent.
inline constexpr double kLeastNormShare = 0.125;
// [margin] Sums of products with a gradient cancel: they are further apart than their operands.
inline constexpr double kUnseenGradientSlack = 4;
// [margin] The dtypes that this share of the floating rows has are the usual ones.
inline constexpr double kUsualDTypeShare = 0.6;

// ---- History (divergence_history.cpp) ----

// [margin] Errors that an unrecorded call may have consumed: an error reaches later calls in fewer
// and fewer ways, so that each call behind it counts it for this much less.
inline constexpr double kRecentErrorDecay = 0.7;
inline constexpr size_t kRecentErrorCount = 64;  // [limit]
// [margin] A normalisation that reduces an error by this factor has removed it: a bias in front of
// it moves by chance, which has no effect on the loss.
inline constexpr double kAbsorbedFactor = 8;

// ---- Origins (divergence_origins.cpp) ----

// [derived] Above the noise of float32 (1.9e-6), below that of 16 bits (2e-3).
inline constexpr double kNarrowNoiseFrom = 1e-3;
// [margin] Elements times error from which on unrecorded choices may have changed.
inline constexpr double kLikelyFlips = 0.3;
inline constexpr double kNarrowFlipFactor = 2;  // [margin] 16 bits: times the error of such a flip
// [margin] A gradient whose RMS is at least this share of its largest element is made of signs, as
// that of an absolute error.
inline constexpr double kSignsShare = 0.9;
// [margin] Checksums: this many calls in front of a divergence, the first unequal bits are its
// start.
inline constexpr size_t kUnequalBitsReach = 3;
// Output error over bound [margin]: above these, confidence is high or medium.
inline constexpr double kHighExcess = 10;
inline constexpr double kMediumExcess = 2;
// Unmatched calls without a difference behind them [margin]: sides with more of them, or with more
// than one in ten calls, ran other code. Also how many of a run are searched for a value [limit].
inline constexpr uint32_t kFewUnmatched = 8;
inline constexpr size_t kUnmatchedPerCalls = 10;
// [derived] From this relative error on no decimal digit is equal: nothing is left to amplify.
inline constexpr double kNoDigitLeft = 0.1;
inline constexpr size_t kAmplifierCount = 10;  // [display]

// ---- Parameters from step to step (step_record.cpp) ----

// [margin] Elements of small gradients are hit harder than the gradient's norm tells: Adam divides
// by their own size.
inline constexpr double kUpdateSlack = 64;
inline constexpr double kUpdateSlackBySize = 8;  // [margin] updates as large as the gradient (SGD)
// Parts of a bias may have a gradient that is zero in exact arithmetic (the keys' bias of an
// attention, a bias in front of a normalisation): there the sign of the update is chance, its size
// is not. Both sides moved if the smaller movement is this share of the larger [margin]; the second
// for gradients of 32 bits next to Adam's epsilon.
inline constexpr double kMovementShare = 0.2;
inline constexpr double kMovementShare32 = 0.05;
// [derived] Variance of the logarithm: within about a factor of 2 either way.
inline constexpr double kMovesAlike = 0.5;
// [margin] Gradients of 16 bits: of a short vector any element may be of chance.
inline constexpr double kNarrowError = 1e-3;
inline constexpr double kFewElements = 1024;
inline constexpr double kUnitRoundoff = tensor::FormatOf(DType::kFloat32).unit;  // 2^-24
// [margin] Of the magnitude of a parameter: rounding of the update and of statistics.
inline constexpr double kUpdateRoundingUnits = 32;
// UpdateRule::Differs [margin]: gradients up to this error agree; from so many parameters, and this
// share of them (one in 3), on.
inline constexpr double kCloseGradient = 1e-4;
inline constexpr size_t kFewestApart = 3;
inline constexpr size_t kFewestWhollyApart = 2;  // with both extremes
inline constexpr size_t kShareApart = 3;

// ---- Limits of work [limit] ----

// Edits between both sequences of calls: sides with less in common are paired by name.
inline constexpr int64_t kMostEdits = 1000;
// Levels of a module path. Each one is hashed whole: a name of nothing but dots would take the
// square of its length.
inline constexpr int kMostLevels = 1000;
// Parents of a call by construct.json: a damaged file may run in circles.
inline constexpr int kDeepestParent = 256;
// Every output that differs is held against every tensor that the call was given: of a call of more
// pairs than these, the first outputs are.
inline constexpr uint64_t kMostHeldAgainst = uint64_t{1} << 26U;
inline constexpr uint32_t kMostArguments = 64;  // of a call that are looked at

}  // namespace msprobe::analysis::compare
