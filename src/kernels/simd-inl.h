// The vector loops, written once over Highway tags and compiled by each kernels_<instruction
// set>.cpp, which names the target before including this file. Same arithmetic, element for element
// and lane for lane, as scalar_steps.h.

#ifndef MSPROBE_KERNEL_TABLE
#error "included by kernels_<instruction set>.cpp only"
#endif

#include <bit>
#include <limits>
#include <type_traits>
#include <utility>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "src/kernels/coded_steps.h"
#include "src/kernels/kernel_table.h"
#include "src/kernels/matrix_product-inl.h"
#include "src/kernels/scalar_steps.h"

HWY_BEFORE_NAMESPACE();
namespace msprobe::kernels::internal {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using HalfFloatTag = hn::Half<FloatTag>;
using DoubleTag = hn::ScalableTag<double>;
using Floats = hn::Vec<FloatTag>;
using Doubles = hn::Vec<DoubleTag>;

constexpr size_t kFloats = HWY_LANES(float);
constexpr size_t kDoubles = HWY_LANES(double);
static_assert(kGroupElements % kFloats == 0 && kCompareLanes % kDoubles == 0);

// Vectors that make up one group, and double accumulators of one sum.
template <class Tag>
constexpr size_t kVectors = kGroupElements / HWY_LANES(hn::TFromD<Tag>);
constexpr size_t kStatsSums = kStatsLanes / kDoubles;
constexpr size_t kCompareSums = kCompareLanes / kDoubles;

// Loads at any alignment.
template <class D>
HWY_INLINE hn::Vec<D> LoadBytes(D d, const std::byte* data) {
  const hn::Repartition<uint8_t, D> d8;
  return hn::BitCast(d, hn::LoadU(d8, reinterpret_cast<const uint8_t*>(data)));
}

// The processor's own prefetcher stops at page borders and starts late; asking this far ahead is
// worth a tenth to a third from memory and costs little in cache. Addresses past the end are
// harmless.
constexpr size_t kPrefetchBytes = 2048;
template <class Source>
HWY_INLINE void PrefetchGroup(const std::byte* group) {
  for (size_t line = 0; line < kGroupElements * Source::kBytes; line += 64) {
    hwy::Prefetch(group + kPrefetchBytes + line);
  }
}

// Counts grow by one in the lanes where `mask` is set.
template <class Counts, class Mask>
HWY_INLINE Counts CountIn(Counts counts, Mask mask) {
  const hn::DFromV<Counts> du;
#if HWY_TARGET <= HWY_AVX3
  return hn::IfThenElse(hn::RebindMask(du, mask), hn::Add(counts, hn::Set(du, 1)), counts);
#else
  return hn::Sub(counts, hn::VecFromMask(du, hn::RebindMask(du, mask)));
#endif
}

template <class V>
HWY_INLINE uint64_t SumOfCounts(const V* counts, size_t vectors) {
  const hn::DFromV<V> du;
  HWY_ALIGN hn::TFromD<decltype(du)> lanes[HWY_LANES(hn::TFromD<decltype(du)>)];
  uint64_t total = 0;
  for (size_t v = 0; v < vectors; ++v) {
    hn::Store(counts[v], du, lanes);
    for (const auto lane : lanes) {
      total += lane;
    }
  }
  return total;
}

using HalfBits = hn::Vec<hn::Rebind<int16_t, FloatTag>>;

#if HWY_TARGET == HWY_SSE4
// Highway's own float16 conversions for this target round toward zero and know no infinities.
HWY_INLINE Floats WidenedHalves(HalfBits halves) {
  constexpr FloatTag d;
  const hn::RebindToUnsigned<FloatTag> du;
  const auto bits = hn::PromoteTo(du, hn::BitCast(hn::Rebind<uint16_t, FloatTag>(), halves));
  const auto magnitude_bits = hn::And(bits, hn::Set(du, 0x7FFF));
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000)));
  // Scaling by 2^112 moves the exponent bias, for subnormals as well.
  const auto magnitude =
      hn::Mul(hn::BitCast(d, hn::ShiftLeft<13>(magnitude_bits)), hn::Set(d, 0x1p112F));
  const auto special = hn::Gt(hn::BitCast(d, hn::ShiftLeft<13>(magnitude_bits)),
                              hn::BitCast(d, hn::Set(du, 0x7BFFU << 13U)));
  const auto special_bits = hn::Or(hn::ShiftLeft<13>(magnitude_bits), hn::Set(du, 0x7F800000));
  return hn::BitCast(
      d, hn::Or(sign,
                hn::BitCast(du, hn::IfThenElse(special, hn::BitCast(d, special_bits), magnitude))));
}

HWY_INLINE Floats RoundToHalves(FloatTag d, Floats value) {
  const hn::RebindToUnsigned<FloatTag> du;
  const auto magnitude = hn::Abs(value);
  const auto sign = hn::And(hn::BitCast(du, value), hn::Set(du, 0x80000000));
  const auto magnitude_bits = hn::BitCast(du, magnitude);
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude_bits), hn::Set(du, 1));
  const auto normal =
      hn::And(hn::Add(hn::Add(magnitude_bits, hn::Set(du, 0xFFF)), odd), hn::Set(du, 0xFFFFE000));
  // Around 0.5 neighbouring floats are one float16 subnormal step apart.
  const auto half = hn::Set(d, 0.5F);
  const auto subnormal = hn::Sub(hn::Add(magnitude, half), half);
  auto rounded =
      hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0x1p-14F)), subnormal, hn::BitCast(d, normal));
  rounded = hn::IfThenElse(hn::Ge(magnitude, hn::Set(d, 65520.0F)),
                           hn::Set(d, std::numeric_limits<float>::infinity()), rounded);
  rounded = hn::IfThenElse(hn::IsNaN(value), value, rounded);
  return hn::BitCast(d, hn::Or(hn::BitCast(du, rounded), sign));
}
#else
HWY_INLINE Floats WidenedHalves(HalfBits halves) {
  return hn::PromoteTo(FloatTag(), hn::BitCast(hn::Rebind<hwy::float16_t, FloatTag>(), halves));
}

HWY_INLINE Floats RoundToHalves(FloatTag d, Floats value) {
  return hn::PromoteTo(d, hn::DemoteTo(hn::Rebind<hwy::float16_t, FloatTag>(), value));
}
#endif

HWY_INLINE Doubles LowerDoubles(Floats value) {
  return hn::PromoteTo(DoubleTag(), hn::LowerHalf(HalfFloatTag(), value));
}
HWY_INLINE Doubles UpperDoubles(Floats value) {
  return hn::PromoteTo(DoubleTag(), hn::UpperHalf(HalfFloatTag(), value));
}

// One vector of float elements, and its halves as doubles.
struct Float32Source {
  using Tag = FloatTag;
  static constexpr size_t kBytes = 4;
  static HWY_INLINE Floats Load(const std::byte* data) { return LoadBytes(FloatTag(), data); }
  // Two half loads cost less than taking a loaded vector apart.
  static HWY_INLINE Doubles Lower(const std::byte* data, Floats /*loaded*/) {
    return hn::PromoteTo(DoubleTag(), LoadBytes(HalfFloatTag(), data));
  }
  static HWY_INLINE Doubles Upper(const std::byte* data, Floats /*loaded*/) {
    return hn::PromoteTo(DoubleTag(), LoadBytes(HalfFloatTag(), data + kFloats / 2 * kBytes));
  }
};
struct BFloat16Source {
  using Tag = FloatTag;
  static constexpr size_t kBytes = 2;
  static HWY_INLINE Floats Load(const std::byte* data) {
    const hn::RebindToUnsigned<FloatTag> du;
    const auto bits = LoadBytes(hn::Rebind<uint16_t, FloatTag>(), data);
    return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(hn::PromoteTo(du, bits)));
  }
  static HWY_INLINE Doubles Lower(const std::byte* /*data*/, Floats loaded) {
    return LowerDoubles(loaded);
  }
  static HWY_INLINE Doubles Upper(const std::byte* /*data*/, Floats loaded) {
    return UpperDoubles(loaded);
  }
};
struct Float16Source {
  using Tag = FloatTag;
  static constexpr size_t kBytes = 2;
  static HWY_INLINE Floats Load(const std::byte* data) {
    return WidenedHalves(LoadBytes(hn::Rebind<int16_t, FloatTag>(), data));
  }
  static HWY_INLINE Doubles Lower(const std::byte* /*data*/, Floats loaded) {
    return LowerDoubles(loaded);
  }
  static HWY_INLINE Doubles Upper(const std::byte* /*data*/, Floats loaded) {
    return UpperDoubles(loaded);
  }
};
struct Float64Source {
  using Tag = DoubleTag;
  static constexpr size_t kBytes = 8;
  static HWY_INLINE Doubles Load(const std::byte* data) { return LoadBytes(DoubleTag(), data); }
};

// ---- statistics

template <class Tag>
struct StatsState {
  Doubles sum[kStatsSums];
  Doubles square_sum[kStatsSums];
  hn::Vec<Tag> max[kVectors<Tag>];
  hn::Vec<Tag> min[kVectors<Tag>];
  hn::Vec<hn::RebindToUnsigned<Tag>> zeros[kVectors<Tag>];
};

template <bool kExactSquares>
HWY_INLINE void AddToSums(Doubles value, Doubles& sum, Doubles& square_sum) {
  sum = hn::Add(sum, value);
  if constexpr (kExactSquares) {  // NOLINT(bugprone-branch-clone): one rounding, or two
    square_sum = hn::MulAdd(value, value, square_sum);
  } else {
    square_sum = hn::Add(square_sum, hn::Mul(value, value));
  }
}

// How small elements are treated: StatsVector without more (kNone), with the rule's zeros (kNear),
// or with subnormals and the smallest magnitude as well (kAll).
enum class Small { kNone, kNear, kAll };

// Adding kAboveZero to the bits of a magnitude puts zero above all others in the order of signed
// integers, and keeps theirs.
template <class Tag>
struct SmallState {
  using SignedTag = hn::RebindToSigned<Tag>;
  using Integer = hn::TFromD<SignedTag>;
  static constexpr Integer kAboveZero = std::numeric_limits<Integer>::max();
  hn::Vec<SignedTag> zero_below;
  hn::Vec<SignedTag> normal;  // with kAboveZero added
  hn::Vec<hn::RebindToUnsigned<Tag>> subnormals;
  hn::Vec<SignedTag> smallest;  // with kAboveZero added
};

template <Small kSmall, size_t v, class Tag>
HWY_INLINE void SmallVector(hn::Vec<Tag> value, StatsState<Tag>& state, SmallState<Tag>& small) {
  constexpr typename SmallState<Tag>::SignedTag di;
  const auto bits = hn::BitCast(di, hn::Abs(value));
  state.zeros[v] = CountIn(state.zeros[v], hn::Lt(bits, small.zero_below));
  if constexpr (kSmall == Small::kAll) {
    const auto order = hn::Add(bits, hn::Set(di, SmallState<Tag>::kAboveZero));
    small.subnormals = CountIn(small.subnormals, hn::Lt(order, small.normal));
    small.smallest = hn::Min(order, small.smallest);
  }
}

// The v-th vector of a group. Squares of widened floats are exact in double.
template <class Source, Small kSmall, size_t v>
HWY_INLINE void StatsVector(const std::byte* group, StatsState<typename Source::Tag>& state,
                            SmallState<typename Source::Tag>& small) {
  constexpr typename Source::Tag d;
  const std::byte* data = group + v * HWY_LANES(hn::TFromD<decltype(d)>) * Source::kBytes;
  const auto value = Source::Load(data);
  state.max[v] = hn::Max(value, state.max[v]);
  state.min[v] = hn::Min(value, state.min[v]);
  if constexpr (kSmall == Small::kNone) {
    state.zeros[v] = CountIn(state.zeros[v], hn::Eq(value, hn::Zero(d)));
  } else {
    SmallVector<kSmall, v, typename Source::Tag>(value, state, small);
  }
  if constexpr (std::is_same_v<Source, Float64Source>) {
    AddToSums<false>(value, state.sum[v], state.square_sum[v]);
  } else {
    AddToSums<true>(Source::Lower(data, value), state.sum[2 * v], state.square_sum[2 * v]);
    AddToSums<true>(Source::Upper(data, value), state.sum[2 * v + 1], state.square_sum[2 * v + 1]);
  }
}

template <class Source, Small kSmall, size_t... v>
HWY_INLINE void StatsGroup(std::index_sequence<v...> /*vectors*/, const std::byte* group,
                           StatsState<typename Source::Tag>& state,
                           SmallState<typename Source::Tag>& small) {
  (StatsVector<Source, kSmall, v>(group, state, small), ...);
}

template <class Source, Small kSmall>
HWY_INLINE void StatsRun(const std::byte* data, size_t count, StatsLanes& lanes,
                         SmallState<typename Source::Tag>& small) {
  using Tag = typename Source::Tag;
  using T = hn::TFromD<Tag>;
  constexpr Tag d;
  constexpr DoubleTag dd;
  constexpr size_t kCount = kVectors<Tag>;
  StatsState<Tag> state;
  for (size_t k = 0; k < kStatsSums; ++k) {
    state.sum[k] = hn::LoadU(dd, lanes.sum + k * kDoubles);
    state.square_sum[k] = hn::LoadU(dd, lanes.square_sum + k * kDoubles);
  }
  for (size_t v = 0; v < kCount; ++v) {
    state.max[v] = hn::Set(d, -std::numeric_limits<T>::infinity());
    state.min[v] = hn::Set(d, std::numeric_limits<T>::infinity());
    state.zeros[v] = hn::Zero(hn::RebindToUnsigned<Tag>());
  }
  for (size_t i = 0; i < count; i += kGroupElements) {
    PrefetchGroup<Source>(data + i * Source::kBytes);
    StatsGroup<Source, kSmall>(std::make_index_sequence<kCount>(), data + i * Source::kBytes, state,
                               small);
  }
  for (size_t k = 0; k < kStatsSums; ++k) {
    hn::StoreU(state.sum[k], dd, lanes.sum + k * kDoubles);
    hn::StoreU(state.square_sum[k], dd, lanes.square_sum + k * kDoubles);
  }
  for (size_t v = 0; v < kCount; ++v) {
    const double max = hn::GetLane(hn::MaxOfLanes(d, state.max[v]));
    const double min = hn::GetLane(hn::MinOfLanes(d, state.min[v]));
    lanes.max = max > lanes.max ? max : lanes.max;
    lanes.min = min < lanes.min ? min : lanes.min;
  }
  lanes.zero_count += SumOfCounts(state.zeros, kCount);
}

template <class Source>
void Stats(const std::byte* data, size_t count, StatsLanes& lanes) {
  SmallState<typename Source::Tag> unused;
  StatsRun<Source, Small::kNone>(data, count, lanes, unused);
}

template <class Source, bool kAll>
void SmallStats(const std::byte* data, size_t count, const SmallRule& rule, StatsLanes& lanes,
                SmallLanes& small) {
  using Tag = typename Source::Tag;
  using State = SmallState<Tag>;
  using Integer = typename State::Integer;
  using Unsigned = std::make_unsigned_t<Integer>;
  constexpr typename State::SignedTag di;
  const auto ordered = [](uint64_t bits) {
    return static_cast<Integer>(static_cast<Unsigned>(bits) +
                                static_cast<Unsigned>(State::kAboveZero));
  };
  State state;
  state.zero_below = hn::Set(di, static_cast<Integer>(rule.zero_below_bits));
  // Nothing lies below the order of 1.
  state.normal = hn::Set(di, ordered(rule.normal_bits == 0 ? 1 : rule.normal_bits));
  state.subnormals = hn::Zero(hn::RebindToUnsigned<Tag>());
  state.smallest = hn::Set(di, State::kAboveZero);
  StatsRun<Source, kAll ? Small::kAll : Small::kNear>(data, count, lanes, state);
  if constexpr (kAll) {
    small.subnormal_count += SumOfCounts(&state.subnormals, 1);
    const Integer smallest = hn::GetLane(hn::MinOfLanes(di, state.smallest));
    if (smallest != State::kAboveZero) {
      const auto bits = static_cast<Unsigned>(static_cast<Unsigned>(smallest) -
                                              static_cast<Unsigned>(State::kAboveZero));
      const double magnitude = std::bit_cast<hn::TFromD<Tag>>(bits);
      small.smallest_nonzero =
          magnitude < small.smallest_nonzero ? magnitude : small.smallest_nonzero;
    }
  }
}

template <class Source>
void NonFinite(const std::byte* data, size_t count, NonFiniteCounts& counts) {
  using Tag = typename Source::Tag;
  using T = hn::TFromD<Tag>;
  constexpr Tag d;
  const auto infinity = hn::Set(d, std::numeric_limits<T>::infinity());
  const auto minus_infinity = hn::Neg(infinity);
  auto max = minus_infinity;
  auto min = infinity;
  auto nan_counts = hn::Zero(hn::RebindToUnsigned<Tag>());
  auto positive_counts = nan_counts;
  auto negative_counts = nan_counts;
  constexpr size_t kStep = HWY_LANES(T);
  for (size_t i = 0; i < count; i += kStep) {
    const auto value = Source::Load(data + i * Source::kBytes);
    const auto nan = hn::IsNaN(value);
    max = hn::Max(max, hn::IfThenElse(nan, minus_infinity, value));
    min = hn::Min(min, hn::IfThenElse(nan, infinity, value));
    nan_counts = CountIn(nan_counts, nan);
    positive_counts = CountIn(positive_counts, hn::Eq(value, infinity));
    negative_counts = CountIn(negative_counts, hn::Eq(value, minus_infinity));
  }
  const double run_max = hn::GetLane(hn::MaxOfLanes(d, max));
  const double run_min = hn::GetLane(hn::MinOfLanes(d, min));
  counts.max = run_max > counts.max ? run_max : counts.max;
  counts.min = run_min < counts.min ? run_min : counts.min;
  counts.nan_count += SumOfCounts(&nan_counts, 1);
  counts.positive_inf_count += SumOfCounts(&positive_counts, 1);
  counts.negative_inf_count += SumOfCounts(&negative_counts, 1);
}

// ---- comparison

template <class Tag>
struct CompareState {
  using Values = hn::Vec<Tag>;
  using Counts = hn::Vec<hn::RebindToUnsigned<Tag>>;
  Doubles dot[kCompareSums];
  Doubles npu_square_sum[kCompareSums];
  Doubles bench_square_sum[kCompareSums];
  Doubles difference_square_sum[kCompareSums];
  Doubles max_abs_error;
  hn::Vec<hn::RebindToSigned<Tag>> max_relative_bits;
  Counts below_one_thousandth;
  Counts below_five_thousandths;
  Counts different;
  Values npu_epsilon;
  Values bench_epsilon;
};

// Products of two widened floats are exact in double, that of a difference with itself is not.
template <bool kExactProducts>
HWY_INLINE Doubles AddProduct(Doubles a, Doubles b, Doubles sum) {
  if constexpr (kExactProducts) {  // NOLINT(bugprone-branch-clone): one rounding, or two
    return hn::MulAdd(a, b, sum);
  } else {
    return hn::Add(sum, hn::Mul(a, b));
  }
}

template <bool kExactProducts, size_t k, class Tag>
HWY_INLINE void CompareSums(Doubles npu, Doubles bench, CompareState<Tag>& state) {
  const auto difference = hn::Sub(npu, bench);
  state.dot[k] = AddProduct<kExactProducts>(npu, bench, state.dot[k]);
  state.npu_square_sum[k] = AddProduct<kExactProducts>(npu, npu, state.npu_square_sum[k]);
  state.bench_square_sum[k] = AddProduct<kExactProducts>(bench, bench, state.bench_square_sum[k]);
  state.difference_square_sum[k] =
      AddProduct<false>(difference, difference, state.difference_square_sum[k]);
  state.max_abs_error = hn::Max(hn::Abs(difference), state.max_abs_error);
}

// Vector forms of the structs of the same names in scalar_steps.h.
struct VectorFloat32Relative {
  static constexpr float kOneThousandth = Float32Relative::kOneThousandth;
  static constexpr float kFiveThousandths = Float32Relative::kFiveThousandths;
  static HWY_INLINE Floats Error(Floats npu, Floats bench, const CompareState<FloatTag>& state) {
    const auto zero = hn::Eq(bench, hn::Zero(FloatTag()));
    npu = hn::IfThenElse(zero, hn::Add(npu, state.npu_epsilon), npu);
    bench = hn::IfThenElse(zero, state.bench_epsilon, bench);
    return hn::Abs(hn::Div(hn::Sub(npu, bench), bench));
  }
  static float Finish(float max) { return max; }
};
// Rounding the quotient to float16 keeps order, so it is left to the end: the maximum is rounded
// once, and a rounded quotient is below a threshold exactly when the unrounded one is at most
// halfway between the threshold and the float16 before it (both predecessors are even, so ties fall
// to them). These are the floats after the halfway points.
struct VectorFloat16Relative {
  static constexpr float kOneThousandth = 0x1.062002p-10F;
  static constexpr float kFiveThousandths = 0x1.47a002p-8F;
  static HWY_INLINE Floats Error(Floats npu, Floats bench,
                                 const CompareState<FloatTag>& /*state*/) {
    return hn::Abs(hn::Div(RoundToHalves(FloatTag(), hn::Sub(npu, bench)), bench));
  }
  static float Finish(float max) { return RoundToFloat16(max); }
};
template <bool kNpuIsFloat32>
struct VectorFloat64Relative {
  static constexpr double kOneThousandth = Float64Relative::kOneThousandth;
  static constexpr double kFiveThousandths = Float64Relative::kFiveThousandths;
  static HWY_INLINE Doubles Error(Doubles npu, Doubles bench,
                                  const CompareState<DoubleTag>& state) {
    const auto zero = hn::Eq(bench, hn::Zero(DoubleTag()));
    auto shifted = hn::Add(npu, state.npu_epsilon);
    if constexpr (kNpuIsFloat32) {
      shifted = hn::PromoteTo(DoubleTag(), hn::DemoteTo(HalfFloatTag(), shifted));
    }
    npu = hn::IfThenElse(zero, shifted, npu);
    bench = hn::IfThenElse(zero, state.bench_epsilon, bench);
    return hn::Abs(hn::Div(hn::Sub(npu, bench), bench));
  }
  static double Finish(double max) { return max; }
};

template <class Source, class Relative, size_t v>
HWY_INLINE void CompareVector(const std::byte* npu_group, const std::byte* bench_group,
                              CompareState<typename Source::Tag>& state) {
  constexpr typename Source::Tag d;
  constexpr size_t kOffset = v * HWY_LANES(hn::TFromD<decltype(d)>) * Source::kBytes;
  const std::byte* npu_data = npu_group + kOffset;
  const std::byte* bench_data = bench_group + kOffset;
  const auto npu = Source::Load(npu_data);
  const auto bench = Source::Load(bench_data);
  const auto relative = Relative::Error(npu, bench, state);
  state.below_one_thousandth =
      CountIn(state.below_one_thousandth, hn::Lt(relative, hn::Set(d, Relative::kOneThousandth)));
  state.below_five_thousandths = CountIn(state.below_five_thousandths,
                                         hn::Lt(relative, hn::Set(d, Relative::kFiveThousandths)));
  state.different = CountIn(state.different, hn::Ne(npu, bench));
  // Without signs, the bits as integers order as the values do, with NaN above infinity: one
  // maximum finds both.
  state.max_relative_bits = hn::Max(
      hn::BitCast(hn::RebindToSigned<typename Source::Tag>(), relative), state.max_relative_bits);
  if constexpr (std::is_same_v<Source, Float64Source>) {
    CompareSums<false, v % kCompareSums>(npu, bench, state);
  } else {
    CompareSums<true, (2 * v) % kCompareSums>(Source::Lower(npu_data, npu),
                                              Source::Lower(bench_data, bench), state);
    CompareSums<true, (2 * v + 1) % kCompareSums>(Source::Upper(npu_data, npu),
                                                  Source::Upper(bench_data, bench), state);
  }
}

template <class Source, class Relative, size_t... v>
HWY_INLINE void CompareGroup(std::index_sequence<v...> /*vectors*/, const std::byte* npu,
                             const std::byte* bench, CompareState<typename Source::Tag>& state) {
  (CompareVector<Source, Relative, v>(npu, bench, state), ...);
}

template <class Source, class Relative>
void CompareRun(const std::byte* npu, const std::byte* bench, size_t count,
                const RelativeRule& rule, CompareLanes& lanes) {
  using Tag = typename Source::Tag;
  using T = hn::TFromD<Tag>;
  constexpr Tag d;
  constexpr DoubleTag dd;
  CompareState<Tag> state;
  for (size_t k = 0; k < kCompareSums; ++k) {
    state.dot[k] = hn::LoadU(dd, lanes.dot + k * kDoubles);
    state.npu_square_sum[k] = hn::LoadU(dd, lanes.npu_square_sum + k * kDoubles);
    state.bench_square_sum[k] = hn::LoadU(dd, lanes.bench_square_sum + k * kDoubles);
    state.difference_square_sum[k] = hn::LoadU(dd, lanes.difference_square_sum + k * kDoubles);
  }
  state.max_abs_error = hn::Zero(dd);
  state.max_relative_bits = hn::Zero(hn::RebindToSigned<Tag>());
  state.below_one_thousandth = hn::Zero(hn::RebindToUnsigned<Tag>());
  state.below_five_thousandths = state.below_one_thousandth;
  state.different = state.below_one_thousandth;
  state.npu_epsilon = hn::Set(d, static_cast<T>(rule.npu_epsilon));
  state.bench_epsilon = hn::Set(d, static_cast<T>(rule.bench_epsilon));
  for (size_t i = 0; i < count; i += kGroupElements) {
    PrefetchGroup<Source>(npu + i * Source::kBytes);
    PrefetchGroup<Source>(bench + i * Source::kBytes);
    CompareGroup<Source, Relative>(std::make_index_sequence<kVectors<Tag>>(),
                                   npu + i * Source::kBytes, bench + i * Source::kBytes, state);
  }
  for (size_t k = 0; k < kCompareSums; ++k) {
    hn::StoreU(state.dot[k], dd, lanes.dot + k * kDoubles);
    hn::StoreU(state.npu_square_sum[k], dd, lanes.npu_square_sum + k * kDoubles);
    hn::StoreU(state.bench_square_sum[k], dd, lanes.bench_square_sum + k * kDoubles);
    hn::StoreU(state.difference_square_sum[k], dd, lanes.difference_square_sum + k * kDoubles);
  }
  const double absolute = hn::GetLane(hn::MaxOfLanes(dd, state.max_abs_error));
  HWY_ALIGN T relative[HWY_LANES(T)];
  hn::Store(hn::BitCast(d, state.max_relative_bits), d, relative);
  lanes.max_abs_error = absolute > lanes.max_abs_error ? absolute : lanes.max_abs_error;
  for (const T lane : relative) {
    const T value = Relative::Finish(lane);
    lanes.relative_error_nan = lanes.relative_error_nan || value != value;
    lanes.max_relative_error = value > lanes.max_relative_error ? value : lanes.max_relative_error;
  }
  lanes.below_one_thousandth_count += SumOfCounts(&state.below_one_thousandth, 1);
  lanes.below_five_thousandths_count += SumOfCounts(&state.below_five_thousandths, 1);
  lanes.different_count += SumOfCounts(&state.different, 1);
}

void CompareFloat64(const std::byte* npu, const std::byte* bench, size_t count,
                    const RelativeRule& rule, CompareLanes& lanes) {
  if (rule.npu_is_float32) {
    CompareRun<Float64Source, VectorFloat64Relative<true>>(npu, bench, count, rule, lanes);
  } else {
    CompareRun<Float64Source, VectorFloat64Relative<false>>(npu, bench, count, rule, lanes);
  }
}

void WidenFloat16(const std::byte* data, size_t count, float* out) {
  constexpr FloatTag d;
  for (size_t i = 0; i < count; i += kFloats) {
    hn::StoreU(Float16Source::Load(data + i * Float16Source::kBytes), d, out + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace msprobe::kernels::internal
HWY_AFTER_NAMESPACE();

#include "src/kernels/codes-inl.h"
#include "src/kernels/ratios-inl.h"

// Uses the roundings of ratios.
#include "src/kernels/digest-inl.h"

namespace msprobe::kernels::internal {

const KernelTable MSPROBE_KERNEL_TABLE = {
    .name = MSPROBE_KERNEL_NAME,
    .stats_float32 = HWY_NAMESPACE::Stats<HWY_NAMESPACE::Float32Source>,
    .stats_float16 = HWY_NAMESPACE::Stats<HWY_NAMESPACE::Float16Source>,
    .stats_bfloat16 = HWY_NAMESPACE::Stats<HWY_NAMESPACE::BFloat16Source>,
    .stats_float64 = HWY_NAMESPACE::Stats<HWY_NAMESPACE::Float64Source>,
    .near_float32 = HWY_NAMESPACE::SmallStats<HWY_NAMESPACE::Float32Source, false>,
    .near_float16 = HWY_NAMESPACE::SmallStats<HWY_NAMESPACE::Float16Source, false>,
    .near_bfloat16 = HWY_NAMESPACE::SmallStats<HWY_NAMESPACE::BFloat16Source, false>,
    .near_float64 = HWY_NAMESPACE::SmallStats<HWY_NAMESPACE::Float64Source, false>,
    .small_float32 = HWY_NAMESPACE::SmallStats<HWY_NAMESPACE::Float32Source, true>,
    .small_float16 = HWY_NAMESPACE::SmallStats<HWY_NAMESPACE::Float16Source, true>,
    .small_bfloat16 = HWY_NAMESPACE::SmallStats<HWY_NAMESPACE::BFloat16Source, true>,
    .small_float64 = HWY_NAMESPACE::SmallStats<HWY_NAMESPACE::Float64Source, true>,
    .non_finite_float32 = HWY_NAMESPACE::NonFinite<HWY_NAMESPACE::Float32Source>,
    .non_finite_float16 = HWY_NAMESPACE::NonFinite<HWY_NAMESPACE::Float16Source>,
    .non_finite_bfloat16 = HWY_NAMESPACE::NonFinite<HWY_NAMESPACE::BFloat16Source>,
    .non_finite_float64 = HWY_NAMESPACE::NonFinite<HWY_NAMESPACE::Float64Source>,
    .compare_float32 = HWY_NAMESPACE::CompareRun<HWY_NAMESPACE::Float32Source,
                                                 HWY_NAMESPACE::VectorFloat32Relative>,
    .compare_bfloat16 = HWY_NAMESPACE::CompareRun<HWY_NAMESPACE::BFloat16Source,
                                                  HWY_NAMESPACE::VectorFloat32Relative>,
    .compare_float16 = HWY_NAMESPACE::CompareRun<HWY_NAMESPACE::Float16Source,
                                                 HWY_NAMESPACE::VectorFloat16Relative>,
    .compare_widened_float16 = HWY_NAMESPACE::CompareRun<HWY_NAMESPACE::Float32Source,
                                                         HWY_NAMESPACE::VectorFloat16Relative>,
    .compare_float64 = HWY_NAMESPACE::CompareFloat64,
    .bounded_float32 =
        HWY_NAMESPACE::Bounded<HWY_NAMESPACE::Float32Source, HWY_NAMESPACE::Float32Source>,
    .bounded_bfloat16_npu =
        HWY_NAMESPACE::Bounded<HWY_NAMESPACE::BFloat16Source, HWY_NAMESPACE::Float32Source>,
    .bounded_bfloat16_bench =
        HWY_NAMESPACE::Bounded<HWY_NAMESPACE::Float32Source, HWY_NAMESPACE::BFloat16Source>,
#if HWY_TARGET <= HWY_AVX2
    .coded_bfloat16 = HWY_NAMESPACE::Coded,
#endif
    .widen_float16 = HWY_NAMESPACE::WidenFloat16,
    .widen_bfloat16 = HWY_NAMESPACE::WidenBFloat16,
    .nibbles = HWY_NAMESPACE::Nibbles,
    .bytes = HWY_NAMESPACE::Bytes,
    .digest_float32 = HWY_NAMESPACE::Digest<HWY_NAMESPACE::Float32Source, HWY_NAMESPACE::Unrounded>,
    .digest_bfloat16 = HWY_NAMESPACE::DigestBFloat16,
    .digest_float16 = HWY_NAMESPACE::Digest<HWY_NAMESPACE::Float16Source, HWY_NAMESPACE::Unrounded>,
    .digest_float32_as_bfloat16 =
        HWY_NAMESPACE::Digest<HWY_NAMESPACE::Float32Source, HWY_NAMESPACE::RoundedToBFloat16>,
    .digest_float32_as_float16 =
        HWY_NAMESPACE::Digest<HWY_NAMESPACE::Float32Source, HWY_NAMESPACE::RoundedToFloat16>,
    .ratios_float32 = HWY_NAMESPACE::Ratios<HWY_NAMESPACE::FloatTag, HWY_NAMESPACE::Unrounded>,
    .ratios_bfloat16 =
        HWY_NAMESPACE::Ratios<HWY_NAMESPACE::FloatTag, HWY_NAMESPACE::RoundedToBFloat16>,
    .ratios_float16 =
        HWY_NAMESPACE::Ratios<HWY_NAMESPACE::FloatTag, HWY_NAMESPACE::RoundedToFloat16>,
    .ratios_float64 = HWY_NAMESPACE::Ratios<HWY_NAMESPACE::DoubleTag, HWY_NAMESPACE::Unrounded>,
    .bounds = HWY_NAMESPACE::Bounds,
    .product = {HWY_NAMESPACE::kTileRows, HWY_NAMESPACE::kTileColumns, HWY_NAMESPACE::AddProduct},
};

}  // namespace msprobe::kernels::internal
