// The vector loops of ratios.h over Highway tags: a part of simd-inl.h, compiled like it by each
// kernels_<instruction set>.cpp.

#ifndef MSPROBE_KERNEL_TABLE
#error "included by kernels_<instruction set>.cpp only"
#endif

#include <limits>
#include <utility>

#include <hwy/highway.h>

#include "src/kernels/kernel_table.h"

HWY_BEFORE_NAMESPACE();
namespace msprobe::kernels::internal {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kRatioSums = kRatioLanes / kDoubles;
static_assert(kRatioLanes % kDoubles == 0);

struct Unrounded {
  template <class D>
  static HWY_INLINE hn::Vec<D> Round(D /*d*/, hn::Vec<D> value) {
    return value;
  }
};
struct RoundedToFloat16 {
  static HWY_INLINE Floats Round(FloatTag d, Floats value) { return RoundToHalves(d, value); }
};
// Rounds finite numbers and infinity.
struct RoundedToBFloat16 {
  static HWY_INLINE Floats Round(FloatTag d, Floats value) {
    const hn::RebindToUnsigned<FloatTag> du;
    const auto bits = hn::BitCast(du, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
    const auto nearest = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFF)));
    return hn::BitCast(d, hn::And(nearest, hn::Set(du, 0xFFFF0000)));
  }
};

template <class Tag>
struct RatioState {
  hn::Vec<Tag> largest;
  hn::Vec<Tag> smallest;
  Doubles sums[kRatioSums];
  hn::Vec<hn::RebindToUnsigned<DoubleTag>> exceeding;
};

template <size_t k, class Tag>
HWY_INLINE void AddApart(Doubles apart, Doubles threshold, RatioState<Tag>& state) {
  Doubles& sum = state.sums[k % kRatioSums];
  sum = hn::Add(sum, apart);
  state.exceeding = CountIn(state.exceeding, hn::Gt(apart, threshold));
}

template <class Rounding, bool kDetails, size_t v, class Tag, typename T = hn::TFromD<Tag>>
HWY_INLINE void RatioVector(const T* original, const T* perturbed, hn::Vec<Tag> floor,
                            hn::Vec<Tag> most, Doubles threshold, T* ratios,
                            RatioState<Tag>& state) {
  constexpr Tag d;
  constexpr size_t at = v * HWY_LANES(T);
  const auto o = hn::Max(hn::Abs(Rounding::Round(d, hn::LoadU(d, original + at))), floor);
  const auto p = hn::Max(hn::Abs(hn::LoadU(d, perturbed + at)), floor);
  const auto ratio = hn::Min(Rounding::Round(d, hn::Div(o, p)), most);
  hn::StoreU(ratio, d, ratios + at);
  state.largest = hn::Max(state.largest, ratio);
  state.smallest = hn::Min(state.smallest, ratio);
  if constexpr (kDetails) {
    const auto apart = hn::Max(ratio, hn::Min(hn::Div(hn::Set(d, T{1}), ratio), most));
    if constexpr (sizeof(T) == sizeof(double)) {
      AddApart<v>(apart, threshold, state);
    } else {
      AddApart<2 * v>(LowerDoubles(apart), threshold, state);
      AddApart<2 * v + 1>(UpperDoubles(apart), threshold, state);
    }
  }
}

template <class Rounding, bool kDetails, size_t... v, class Tag, typename T = hn::TFromD<Tag>>
HWY_INLINE void RatioGroup(std::index_sequence<v...> /*vectors*/, const T* original,
                           const T* perturbed, hn::Vec<Tag> floor, hn::Vec<Tag> most,
                           Doubles threshold, T* ratios, RatioState<Tag>& state) {
  (RatioVector<Rounding, kDetails, v, Tag>(original, perturbed, floor, most, threshold, ratios,
                                           state),
   ...);
}

// All finite, and no two of different signs.
template <class Tag, class Rounding, typename T = hn::TFromD<Tag>>
bool AreOrdinary(const T* original, const T* perturbed, size_t count) {
  constexpr Tag d;
  const auto infinity = hn::Set(d, std::numeric_limits<T>::infinity());
  auto largest = hn::Zero(d);
  auto not_a_number = hn::Zero(d);  // all bits set where one is
  auto signs = hn::Zero(d);
  for (size_t i = 0; i < count; i += HWY_LANES(T)) {
    const auto given = hn::LoadU(d, original + i);
    const auto o = Rounding::Round(d, given);
    const auto p = hn::LoadU(d, perturbed + i);
    // Rounding may turn a NaN into a number.
    not_a_number = hn::Or(not_a_number, hn::VecFromMask(d, hn::IsNaN(given)));
    not_a_number = hn::Or(not_a_number, hn::VecFromMask(d, hn::IsNaN(p)));
    largest = hn::Max(largest, hn::Max(hn::Abs(o), hn::Abs(p)));
    signs = hn::Or(signs, hn::Xor(o, p));
  }
  const auto odd = hn::Or(hn::MaskFromVec(not_a_number), hn::Ge(largest, infinity));
  const hn::RebindToSigned<Tag> di;
  const auto differ = hn::Lt(hn::BitCast(di, signs), hn::Zero(di));
  return hn::AllFalse(d, odd) && hn::AllFalse(di, differ);
}

template <class Tag, class Rounding, bool kDetails, typename T = hn::TFromD<Tag>>
void OrdinaryRatios(const T* original, const T* perturbed, size_t count, const RatioRule& rule,
                    T* ratios, RatioLanes& lanes) {
  constexpr Tag d;
  constexpr DoubleTag dd;
  const auto floor = hn::Set(d, static_cast<T>(rule.floor));
  const auto most = hn::Set(d, static_cast<T>(rule.most));
  const Doubles threshold = hn::Set(dd, rule.threshold);
  RatioState<Tag> state;
  state.largest = hn::Zero(d);
  state.smallest = hn::Set(d, std::numeric_limits<T>::infinity());
  state.exceeding = hn::Zero(hn::RebindToUnsigned<DoubleTag>());
  for (size_t k = 0; k < kRatioSums; ++k) {
    state.sums[k] = hn::LoadU(dd, lanes.sum + k * kDoubles);
  }
  for (size_t i = 0; i < count; i += kGroupElements) {
    RatioGroup<Rounding, kDetails>(std::make_index_sequence<kVectors<Tag>>(), original + i,
                                   perturbed + i, floor, most, threshold, ratios + i, state);
  }
  for (size_t k = 0; k < kRatioSums; ++k) {
    hn::StoreU(state.sums[k], dd, lanes.sum + k * kDoubles);
  }
  HWY_ALIGN T largest[HWY_LANES(T)];
  HWY_ALIGN T smallest[HWY_LANES(T)];
  hn::Store(state.largest, d, largest);
  hn::Store(state.smallest, d, smallest);
  for (size_t lane = 0; lane < HWY_LANES(T); ++lane) {
    lanes.largest = largest[lane] > lanes.largest ? largest[lane] : lanes.largest;
    lanes.smallest = smallest[lane] < lanes.smallest ? smallest[lane] : lanes.smallest;
  }
  lanes.exceeding += SumOfCounts(&state.exceeding, 1);
}

template <class Tag, class Rounding, typename T = hn::TFromD<Tag>>
bool Ratios(const T* original, const T* perturbed, size_t count, const RatioRule& rule, T* ratios,
            RatioLanes& lanes) {
  if (!AreOrdinary<Tag, Rounding>(original, perturbed, count)) {
    return false;
  }
  if (rule.details) {
    OrdinaryRatios<Tag, Rounding, true>(original, perturbed, count, rule, ratios, lanes);
  } else {
    OrdinaryRatios<Tag, Rounding, false>(original, perturbed, count, rule, ratios, lanes);
  }
  return true;
}

// A number that is not finite less itself is NaN, others give 0.
void Bounds(const double* found, const double* wanted, const double* errors, size_t count,
            const BoundRule& rule, BoundLanes& lanes) {
  constexpr DoubleTag d;
  const Doubles slack = hn::Set(d, rule.slack);
  const Doubles unit = hn::Set(d, rule.unit);
  const Doubles tiny = hn::Set(d, rule.tiny);
  const Doubles asked = hn::Set(d, rule.asked);
  Doubles largest = hn::Zero(d);
  Doubles not_finite = hn::Zero(d);
  auto reaching = hn::Zero(hn::RebindToUnsigned<DoubleTag>());
  for (size_t i = 0; i < count; i += kDoubles) {
    const Doubles error = hn::Mul(hn::LoadU(d, errors + i), slack);
    const Doubles expected = hn::LoadU(d, wanted + i);
    const Doubles off = hn::Abs(hn::Sub(hn::LoadU(d, found + i), expected));
    const Doubles bound =
        hn::Add(error, hn::Add(hn::Mul(unit, hn::Add(hn::Abs(expected), error)), tiny));
    const Doubles ratio = hn::Div(off, bound);
    not_finite = hn::Add(not_finite, hn::Add(hn::Sub(off, off), hn::Sub(bound, bound)));
    reaching = CountIn(reaching, hn::Ge(ratio, asked));
    largest = hn::IfThenElse(hn::Gt(ratio, largest), ratio, largest);  // not if it is NaN
  }
  HWY_ALIGN double one_of[2][kDoubles];
  hn::Store(largest, d, one_of[0]);
  hn::Store(not_finite, d, one_of[1]);
  for (size_t lane = 0; lane < kDoubles; ++lane) {
    lanes.largest = one_of[0][lane] > lanes.largest ? one_of[0][lane] : lanes.largest;
    lanes.not_finite += one_of[1][lane];
  }
  lanes.reaching += SumOfCounts(&reaching, 1);
}

}  // namespace HWY_NAMESPACE
}  // namespace msprobe::kernels::internal
HWY_AFTER_NAMESPACE();
