// The vector loops of codes.h and of compare.h's bounded comparison, compiled by each
// kernels_<instruction set>.cpp through simd-inl.h. Same arithmetic as coded_steps.h.

HWY_BEFORE_NAMESPACE();
namespace msprobe::kernels::internal {
namespace HWY_NAMESPACE {

// Codes of four bits are places in a table of sixteen numbers, which is one vector, or two.
#if HWY_TARGET <= HWY_AVX2
using Places = hn::Vec<hn::RebindToUnsigned<FloatTag>>;
struct TableOf16 {
  HWY_INLINE Floats operator[](Places places) const {
    constexpr FloatTag d;
    const hn::RebindToUnsigned<FloatTag> du;
    if constexpr (kFloats == 16) {
      return hn::TableLookupLanes(low, hn::IndicesFromVec(d, places));
    } else {
      const auto indices = hn::IndicesFromVec(d, hn::And(places, hn::Set(du, 7)));
      const auto is_high = hn::RebindMask(d, hn::Ne(hn::And(places, hn::Set(du, 8)), hn::Zero(du)));
      return hn::IfThenElse(is_high, hn::TableLookupLanes(high, indices),
                            hn::TableLookupLanes(low, indices));
    }
  }
  Floats low;
  Floats high;
};

// Sixteen places of a byte each looked up.
HWY_INLINE void LookUp16(hn::Vec<hn::Full128<uint8_t>> places, const TableOf16& table, float* out) {
  const hn::RebindToUnsigned<FloatTag> du;
#if HWY_TARGET <= HWY_AVX3
  hn::StoreU(table[hn::PromoteTo(du, places)], FloatTag(), out);
#else
  const hn::Half<hn::Full128<uint8_t>> dh;
  hn::StoreU(table[hn::PromoteTo(du, hn::LowerHalf(dh, places))], FloatTag(), out);
  hn::StoreU(table[hn::PromoteTo(du, hn::UpperHalf(dh, places))], FloatTag(), out + 8);
#endif
}

template <bool kLowFirst, bool kBounds>
HWY_INLINE void NibblesWith(const std::byte* bytes, size_t count, const TableOf16& number_of,
                            const TableOf16& bound_of, float* values_out, float* bounds_out) {
  constexpr hn::Full128<uint8_t> d8;
  const hn::Repartition<uint16_t, decltype(d8)> d16;
  const auto mask = hn::Set(d8, 15);
  for (size_t i = 0; i < count; i += 32) {
    // The last sixteen codes are eight bytes.
    const bool is_half = count - i < 32;
    const auto packed =
        is_half ? hn::ZeroExtendVector(d8, LoadBytes(hn::Half<decltype(d8)>(), bytes + i / 2))
                : LoadBytes(d8, bytes + i / 2);
    const auto low = hn::And(packed, mask);
    const auto high = hn::And(hn::BitCast(d8, hn::ShiftRight<4>(hn::BitCast(d16, packed))), mask);
    const auto first = hn::InterleaveLower(d8, kLowFirst ? low : high, kLowFirst ? high : low);
    LookUp16(first, number_of, values_out + i);
    if constexpr (kBounds) {
      LookUp16(first, bound_of, bounds_out + i);
    }
    if (is_half) {
      break;
    }
    const auto second = hn::InterleaveUpper(d8, kLowFirst ? low : high, kLowFirst ? high : low);
    LookUp16(second, number_of, values_out + i + 16);
    if constexpr (kBounds) {
      LookUp16(second, bound_of, bounds_out + i + 16);
    }
  }
}

// One vector of the tables, scaled.
HWY_INLINE void ScaleNibbles(const NibbleRule& rule, const NibbleScale& scale, size_t first,
                             Floats& number, Floats& bound) {
  constexpr FloatTag d;
  number = hn::Sub(hn::Load(d, rule.numbers + first), hn::Set(d, scale.zero));
  const Floats magnitude = hn::Abs(number);
  const Floats more =
      hn::Min(hn::Mul(hn::Add(magnitude, hn::Set(d, rule.added)), hn::Set(d, rule.relative)),
              hn::Set(d, rule.most_steps));
  bound = hn::Add(hn::Mul(hn::Set(d, scale.reach), hn::Add(hn::Load(d, rule.steps + first), more)),
                  hn::Mul(magnitude, hn::Set(d, scale.error)));
  number = hn::Mul(number, hn::Set(d, scale.scale));
}

template <bool kLowFirst>
void NibblesTo(const std::byte* bytes, size_t count, const NibbleRule& rule,
               const NibbleScale& scale, float* values, float* bounds) {
  TableOf16 number_of;
  TableOf16 bound_of;
  ScaleNibbles(rule, scale, 0, number_of.low, bound_of.low);
  if constexpr (kFloats == 16) {
    number_of.high = number_of.low;
    bound_of.high = bound_of.low;
  } else {
    ScaleNibbles(rule, scale, 8, number_of.high, bound_of.high);
  }
  if (bounds == nullptr) {
    NibblesWith<kLowFirst, false>(bytes, count, number_of, bound_of, values, bounds);
  } else {
    NibblesWith<kLowFirst, true>(bytes, count, number_of, bound_of, values, bounds);
  }
}

void Nibbles(const std::byte* bytes, size_t count, NibbleOrder order, const NibbleRule& rule,
             const NibbleScale& scale, float* values, float* bounds) {
  if (order == NibbleOrder::kLowFirst) {
    NibblesTo<true>(bytes, count, rule, scale, values, bounds);
  } else {
    NibblesTo<false>(bytes, count, rule, scale, values, bounds);
  }
}
#else
void Nibbles(const std::byte* bytes, size_t count, NibbleOrder order, const NibbleRule& rule,
             const NibbleScale& scale, float* values, float* bounds) {
  NibbleSteps(bytes, count, order, rule, scale, values, bounds);
}
#endif

// Scales of 8-bit floats that keep all numbers finite.
constexpr float kMostScale = std::numeric_limits<float>::max() / 0x1p16F;

// Whether all codes are finite numbers.
template <class Format>
HWY_INLINE bool AreNumbers(const std::byte* codes, size_t count) {
  const auto largest_of = [&](auto d8, size_t begin, size_t end) {
    auto largest = hn::Zero(d8);
    for (size_t i = begin; i < end; i += hn::Lanes(d8)) {
      largest = hn::Max(hn::And(LoadBytes(d8, codes + i), hn::Set(d8, 0x7F)), largest);
    }
    return hn::AllFalse(d8, hn::Gt(largest, hn::Set(d8, static_cast<uint8_t>(Format::kLargest))));
  };
  constexpr hn::ScalableTag<uint8_t> wide;
  const size_t widely = count / hn::Lanes(wide) * hn::Lanes(wide);
  return largest_of(wide, 0, widely) && largest_of(hn::Full128<uint8_t>(), widely, count);
}

// A vector of 8-bit floats in units of kUnit, by way of the float16 of the same fraction, which
// processors widen themselves. The sign is in both of the upper bits after the shift of E4M3, and
// belongs to the first.
template <class Format>
HWY_INLINE Floats Float8Number(const std::byte* codes) {
  const hn::Rebind<int8_t, FloatTag> d8;
  const hn::Rebind<int16_t, FloatTag> d16;
  return WidenedHalves(
      hn::And(hn::ShiftLeft<Format::kShift>(hn::PromoteTo(d16, LoadBytes(d8, codes))),
              hn::Set(d16, static_cast<int16_t>(Format::kShift == 7 ? 0xBFFF : 0xFFFF))));
}

template <class Format, bool kBounds>
HWY_INLINE void Float8Run(const std::byte* codes, size_t count, const Float8Bounds& bounds_of,
                          float scale, float* values_out, float* bounds_out) {
  constexpr FloatTag d;
  const hn::RebindToUnsigned<FloatTag> du;
  const Floats scaled = hn::Set(d, scale * Format::kUnit);
  const Floats least = hn::Set(d, Format::kSmallestNormal / Format::kUnit);
  const Floats largest = hn::Set(d, Format::kLargestNumber / Format::kUnit);
  const Floats inner = hn::Set(d, bounds_of.inner * Format::kUnit);
  const Floats end = hn::Set(d, bounds_of.end * Format::kUnit);
  const Floats relative = hn::Set(d, bounds_of.relative * Format::kUnit);
  for (size_t i = 0; i < count; i += kFloats) {
    const Floats number = Float8Number<Format>(codes + i);
    hn::StoreU(hn::Mul(number, scaled), d, values_out + i);
    if constexpr (kBounds) {
      const Floats magnitude = hn::Abs(number);
      const Floats power =
          hn::Max(hn::BitCast(d, hn::And(hn::BitCast(du, number), hn::Set(du, 0x7F800000))), least);
      const Floats steps = hn::IfThenElse(hn::Eq(magnitude, largest), end, inner);
      hn::StoreU(hn::Add(hn::Mul(power, steps), hn::Mul(magnitude, relative)), d, bounds_out + i);
    }
  }
}

template <class Format>
bool Float8To(const std::byte* codes, size_t count, const ByteRule& rule, float scale,
              float* values, float* bounds) {
  if (!AreNumbers<Format>(codes, count) || !(std::fabs(scale) <= kMostScale)) {
    return false;
  }
  const Float8Bounds bounds_of = BoundsOf<Format>(rule, scale);
  if (bounds == nullptr) {
    Float8Run<Format, false>(codes, count, bounds_of, scale, values, bounds);
  } else {
    Float8Run<Format, true>(codes, count, bounds_of, scale, values, bounds);
  }
  return true;
}

void Int8To(const std::byte* codes, size_t count, const ByteRule& rule, float scale,
            float* values_out, float* bounds_out) {
  constexpr FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  const hn::Rebind<int8_t, FloatTag> d8;
  const Floats factor = hn::Set(d, scale);
  const Floats size = hn::Abs(factor);
  for (size_t i = 0; i < count; i += kFloats) {
    const Floats number = hn::ConvertTo(d, hn::PromoteTo(di, LoadBytes(d8, codes + i)));
    hn::StoreU(hn::Mul(number, factor), d, values_out + i);
    if (bounds_out != nullptr) {
      const Floats magnitude = hn::Abs(number);
      const Floats steps = hn::IfThenElse(hn::Ge(magnitude, hn::Set(d, 127)),
                                          hn::Set(d, rule.end_steps), hn::Set(d, rule.inner_steps));
      const Floats more =
          hn::Min(hn::Mul(magnitude, hn::Set(d, rule.relative)), hn::Set(d, rule.most_steps));
      hn::StoreU(hn::Mul(hn::Add(steps, more), size), d, bounds_out + i);
    }
  }
}

bool Bytes(ByteCode code, const std::byte* codes, size_t count, const ByteRule& rule, float scale,
           float* values, float* bounds) {
  switch (code) {
    case ByteCode::kFloat8E4M3:
      return Float8To<E4M3Bits>(codes, count, rule, scale, values, bounds);
    case ByteCode::kFloat8E5M2:
      return Float8To<E5M2Bits>(codes, count, rule, scale, values, bounds);
    case ByteCode::kInt8:
      Int8To(codes, count, rule, scale, values, bounds);
      break;
  }
  return true;
}

void WidenBFloat16(const std::byte* data, size_t count, float* out) {
  constexpr FloatTag d;
  for (size_t i = 0; i < count; i += kFloats) {
    hn::StoreU(BFloat16Source::Load(data + i * BFloat16Source::kBytes), d, out + i);
  }
}

// The largest errors change rarely once a few hundred elements were seen: a vector whose errors
// stay below them, which needs no division to know, is left at that. See BoundedLimits.
struct BoundedState {
  hn::Vec<hn::RebindToUnsigned<FloatTag>> equal;
  hn::Vec<hn::RebindToUnsigned<FloatTag>> within;
  Doubles npu_sum[kCompareSums];
  Doubles bench_sum[kCompareSums];
  Floats absolute_limit;
  Floats relative_limit;
  Floats zero_divisor;
  bool zeros_agree;
};

HWY_INLINE void SetLimits(const CompareLanes& lanes, const RelativeRule& rule,
                          BoundedState& state) {
  constexpr FloatTag d;
  const BoundedLimits limits = LimitsOf(lanes, rule);
  state.absolute_limit = hn::Set(d, limits.absolute);
#if HWY_NATIVE_FMA
  state.relative_limit = hn::Set(d, limits.relative);
#else
  state.relative_limit = hn::Set(d, limits.relative * kBelowRounding);
#endif
  state.zero_divisor = hn::Set(d, limits.zero_divisor);
  state.zeros_agree = limits.zeros_agree;
}

// LargestErrorsStep of each element.
HWY_NOINLINE void LargestErrorsOf(Floats npu, Floats bench, const RelativeRule& rule,
                                  CompareLanes& lanes) {
  constexpr FloatTag d;
  constexpr DoubleTag dd;
  const hn::RebindToSigned<FloatTag> di;
  const Doubles absolute = hn::Max(hn::Abs(hn::Sub(LowerDoubles(npu), LowerDoubles(bench))),
                                   hn::Abs(hn::Sub(UpperDoubles(npu), UpperDoubles(bench))));
  lanes.max_abs_error = std::max(lanes.max_abs_error, hn::GetLane(hn::MaxOfLanes(dd, absolute)));
  const auto zero = hn::Eq(bench, hn::Zero(d));
  const Floats shifted = hn::Add(npu, hn::Set(d, static_cast<float>(rule.npu_epsilon)));
  const Floats divisor =
      hn::IfThenElse(zero, hn::Set(d, static_cast<float>(rule.bench_epsilon)), bench);
  const Floats relative =
      hn::Abs(hn::Div(hn::Sub(hn::IfThenElse(zero, shifted, npu), divisor), divisor));
  const auto is_nan = hn::IsNaN(relative);
  lanes.relative_error_nan = lanes.relative_error_nan || !hn::AllFalse(d, is_nan);
  // Without signs, bits order as the values do.
  const auto bits = hn::BitCast(di, hn::IfThenZeroElse(is_nan, relative));
  const double largest = std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(di, bits)));
  lanes.max_relative_error = std::max(lanes.max_relative_error, largest);
}

// The sums of kBoundedSumElements: vector v of sixteen elements in its own accumulators.
constexpr size_t kBoundedVectors = kBoundedLanes / kFloats;
static_assert(kBoundedLanes == kGroupElements && kBoundedSumElements % kGroupElements == 0);
struct BoundedSums {
  Floats dot[kBoundedVectors];
  Floats npu_squares[kBoundedVectors];
  Floats bench_squares[kBoundedVectors];
  Floats difference_squares[kBoundedVectors];
};

template <class Npu, class Bench, bool kSums, size_t v>
HWY_INLINE void BoundedVector(const std::byte* npu_group, const std::byte* bench_group,
                              const float* bound_group, const RelativeRule& rule,
                              BoundedLanes& lanes, BoundedState& state, BoundedSums& sums) {
  constexpr FloatTag d;
  const Floats npu = Npu::Load(npu_group + v * kFloats * Npu::kBytes);
  const Floats bench = Bench::Load(bench_group + v * kFloats * Bench::kBytes);
  const Floats bound = hn::LoadU(d, bound_group + v * kFloats);
  const Floats apart = hn::Abs(hn::Sub(npu, bench));
  state.equal = CountIn(state.equal, hn::Eq(npu, bench));
  state.within = CountIn(state.within, hn::Le(apart, bound));
  const auto is_zero = hn::Eq(bench, hn::Zero(d));
  const Floats divisor = hn::IfThenElse(is_zero, state.zero_divisor, hn::Abs(bench));
#if HWY_NATIVE_FMA
  const auto is_relative = hn::Gt(hn::NegMulAdd(state.relative_limit, divisor, apart), hn::Zero(d));
#else
  const auto is_relative = hn::Gt(apart, hn::Mul(state.relative_limit, divisor));
#endif
  auto reached = hn::Or(is_relative, hn::Gt(apart, state.absolute_limit));
  if (HWY_UNLIKELY(!state.zeros_agree)) {
    reached = hn::Or(reached, is_zero);
  }
  if (HWY_UNLIKELY(!hn::AllFalse(d, reached))) {
    LargestErrorsOf(npu, bench, rule, lanes);
    SetLimits(lanes, rule, state);
  }
  sums.dot[v] = hn::Add(sums.dot[v], hn::Mul(npu, bench));
  sums.npu_squares[v] = hn::Add(sums.npu_squares[v], hn::Mul(npu, npu));
  sums.bench_squares[v] = hn::Add(sums.bench_squares[v], hn::Mul(bench, bench));
  sums.difference_squares[v] = hn::Add(sums.difference_squares[v], hn::Mul(apart, apart));
  if constexpr (kSums) {
    constexpr size_t kLower = (2 * v) % kCompareSums;
    constexpr size_t kUpper = (2 * v + 1) % kCompareSums;
    state.npu_sum[kLower] = hn::Add(state.npu_sum[kLower], LowerDoubles(npu));
    state.npu_sum[kUpper] = hn::Add(state.npu_sum[kUpper], UpperDoubles(npu));
    state.bench_sum[kLower] = hn::Add(state.bench_sum[kLower], LowerDoubles(bench));
    state.bench_sum[kUpper] = hn::Add(state.bench_sum[kUpper], UpperDoubles(bench));
  }
}

template <class Npu, class Bench, bool kSums, size_t... v>
HWY_INLINE void BoundedGroup(std::index_sequence<v...> /*vectors*/, const std::byte* npu,
                             const std::byte* bench, const float* bounds, const RelativeRule& rule,
                             BoundedLanes& lanes, BoundedState& state, BoundedSums& sums) {
  (BoundedVector<Npu, Bench, kSums, v>(npu, bench, bounds, rule, lanes, state, sums), ...);
}

// Lanes of float32 to those of double.
HWY_INLINE void AddLanes(const Floats (&sums)[kBoundedVectors], double* lanes) {
  constexpr DoubleTag dd;
  for (size_t v = 0; v < kBoundedVectors; ++v) {
    double* lower = lanes + (2 * v) % kCompareSums * kDoubles;
    hn::StoreU(hn::Add(hn::LoadU(dd, lower), LowerDoubles(sums[v])), dd, lower);
    double* upper = lanes + (2 * v + 1) % kCompareSums * kDoubles;
    hn::StoreU(hn::Add(hn::LoadU(dd, upper), UpperDoubles(sums[v])), dd, upper);
  }
}

template <class Npu, class Bench, bool kSums>
void BoundedRun(const std::byte* npu, const std::byte* bench, const float* bounds, size_t count,
                const RelativeRule& rule, BoundedLanes& lanes) {
  constexpr FloatTag d;
  constexpr DoubleTag dd;
  BoundedState state;
  for (size_t k = 0; kSums && k < kCompareSums; ++k) {
    state.npu_sum[k] = hn::LoadU(dd, lanes.npu_sum + k * kDoubles);
    state.bench_sum[k] = hn::LoadU(dd, lanes.bench_sum + k * kDoubles);
  }
  state.equal = hn::Zero(hn::RebindToUnsigned<FloatTag>());
  state.within = state.equal;
  SetLimits(lanes, rule, state);
  for (size_t first = 0; first < count; first += kBoundedSumElements) {
    BoundedSums sums;
    for (size_t v = 0; v < kBoundedVectors; ++v) {
      sums.dot[v] = sums.npu_squares[v] = sums.bench_squares[v] = sums.difference_squares[v] =
          hn::Zero(d);
    }
    const size_t end = HWY_MIN(count, first + kBoundedSumElements);
    for (size_t i = first; i < end; i += kGroupElements) {
      BoundedGroup<Npu, Bench, kSums>(std::make_index_sequence<kBoundedVectors>(),
                                      npu + i * Npu::kBytes, bench + i * Bench::kBytes, bounds + i,
                                      rule, lanes, state, sums);
    }
    AddLanes(sums.dot, lanes.dot);
    AddLanes(sums.npu_squares, lanes.npu_square_sum);
    AddLanes(sums.bench_squares, lanes.bench_square_sum);
    AddLanes(sums.difference_squares, lanes.difference_square_sum);
  }
  for (size_t k = 0; kSums && k < kCompareSums; ++k) {
    hn::StoreU(state.npu_sum[k], dd, lanes.npu_sum + k * kDoubles);
    hn::StoreU(state.bench_sum[k], dd, lanes.bench_sum + k * kDoubles);
  }
  lanes.different_count += count - SumOfCounts(&state.equal, 1);
  lanes.beyond += count - SumOfCounts(&state.within, 1);
}

template <class Npu, class Bench>
void Bounded(const std::byte* npu, const std::byte* bench, const float* bounds, size_t count,
             const RelativeRule& rule, bool sums, BoundedLanes& lanes) {
  if (sums) {
    BoundedRun<Npu, Bench, true>(npu, bench, bounds, count, rule, lanes);
  } else {
    BoundedRun<Npu, Bench, false>(npu, bench, bounds, count, rule, lanes);
  }
}

#if HWY_TARGET <= HWY_AVX2
// Codes decoded in registers. Values and bounds are those of the loops above; where a bound takes
// longer than to look it up, `Bound` is what it is at least, and blocks that exceed that are left
// to them.
template <bool kLowFirst>
class NibbleCodes {
 public:
  static constexpr bool kExactBounds = true;

  explicit NibbleCodes(const CodedRun& run) : run_(run) {}

  bool BeginGroup(size_t first, size_t /*count*/) {
    const NibbleScale& scale = run_.nibble_scales[first / run_.group];
    ScaleNibbles(*run_.nibble_rule, scale, 0, numbers_.low, bounds_.low);
    if constexpr (kFloats == 8) {
      ScaleNibbles(*run_.nibble_rule, scale, 8, numbers_.high, bounds_.high);
    }
    return true;
  }
  // Four bytes hold eight codes: each lane moves its own to the lowest bits.
  HWY_INLINE void Load(size_t first, Floats& value, Floats& bound) const {
    constexpr FloatTag d;
    const hn::RebindToUnsigned<FloatTag> du;
    alignas(64) static constexpr uint32_t kLow[16] = {0, 4, 8, 12, 16, 20, 24, 28,
                                                      0, 4, 8, 12, 16, 20, 24, 28};
    alignas(64) static constexpr uint32_t kHigh[16] = {4, 0, 12, 8, 20, 16, 28, 24,
                                                       4, 0, 12, 8, 20, 16, 28, 24};
    const auto shifts = hn::Load(du, kLowFirst ? kLow : kHigh);
    const std::byte* at = run_.bytes + first / 2;
    uint32_t words[kFloats / 8];
    std::memcpy(words, at, sizeof(words));
    if constexpr (kFloats == 16) {
      const auto both = hn::IfThenElse(hn::FirstN(du, 8), hn::Set(du, words[0]),
                                       hn::Set(du, words[kFloats / 8 - 1]));
      const auto places = hn::And(hn::Shr(both, shifts), hn::Set(du, 15));
      const auto indices = hn::IndicesFromVec(d, places);
      value = hn::TableLookupLanes(numbers_.low, indices);
      bound = hn::TableLookupLanes(bounds_.low, indices);
    } else {
      const auto places = hn::Shr(hn::Set(du, words[0]), shifts);
      const auto indices = hn::IndicesFromVec(d, hn::And(places, hn::Set(du, 7)));
      const auto is_high =
          hn::RebindMask(d, hn::MaskFromVec(hn::BroadcastSignBit(hn::BitCast(
                                hn::RebindToSigned<FloatTag>(), hn::ShiftLeft<28>(places)))));
      value = hn::IfThenElse(is_high, hn::TableLookupLanes(numbers_.high, indices),
                             hn::TableLookupLanes(numbers_.low, indices));
      bound = hn::IfThenElse(is_high, hn::TableLookupLanes(bounds_.high, indices),
                             hn::TableLookupLanes(bounds_.low, indices));
    }
  }

 private:
  const CodedRun& run_;
  TableOf16 numbers_;
  TableOf16 bounds_;
};

template <class Format>
class Float8Codes {
 public:
  static constexpr bool kExactBounds = false;

  explicit Float8Codes(const CodedRun& run) : run_(run) {}

  // False where codes are not numbers, or a scale is none.
  bool BeginGroup(size_t first, size_t count) {
    constexpr FloatTag d;
    const float scale = run_.byte_scales[first / run_.group];
    if (!AreNumbers<Format>(run_.bytes + first, count) || !(std::fabs(scale) <= kMostScale)) {
      return false;
    }
    scale_ = hn::Set(d, scale * Format::kUnit);
    inner_ = hn::Set(d, BoundsOf<Format>(run_.byte_rule, scale).inner * Format::kUnit);
    return true;
  }
  HWY_INLINE void Load(size_t first, Floats& value, Floats& bound) const {
    constexpr FloatTag d;
    const hn::RebindToUnsigned<FloatTag> du;
    const Floats number = Float8Number<Format>(run_.bytes + first);
    const Floats power =
        hn::Max(hn::BitCast(d, hn::And(hn::BitCast(du, number), hn::Set(du, 0x7F800000))),
                hn::Set(d, Format::kSmallestNormal / Format::kUnit));
    value = hn::Mul(number, scale_);
    bound = hn::Mul(power, inner_);
  }

 private:
  const CodedRun& run_;
  Floats scale_;
  Floats inner_;
};

class Int8Codes {
 public:
  static constexpr bool kExactBounds = false;

  explicit Int8Codes(const CodedRun& run) : run_(run) {}

  bool BeginGroup(size_t first, size_t /*count*/) {
    constexpr FloatTag d;
    const float scale = run_.byte_scales[first / run_.group];
    scale_ = hn::Set(d, scale);
    inner_ = hn::Set(d, run_.byte_rule.inner_steps * std::fabs(scale));
    return true;
  }
  HWY_INLINE void Load(size_t first, Floats& value, Floats& bound) const {
    constexpr FloatTag d;
    const hn::RebindToSigned<FloatTag> di;
    const hn::Rebind<int8_t, FloatTag> d8;
    value = hn::Mul(hn::ConvertTo(d, hn::PromoteTo(di, LoadBytes(d8, run_.bytes + first))), scale_);
    bound = inner_;
  }

 private:
  const CodedRun& run_;
  Floats scale_;
  Floats inner_;
};

// What the blocks that were done add to.
struct CodedCounts {
  hn::Vec<hn::RebindToUnsigned<FloatTag>> equal;
  hn::Vec<hn::RebindToUnsigned<FloatTag>> within;
};

// BoundedGroup's arithmetic for kBoundedSumElements elements. False, with nothing added, where an
// error may be larger than all before or a bound is not known. Where the bench is not the side of
// the codes, a difference from zero counts as such: weights are rarely zero.
template <class Codes, bool kNpuIsCoded>
HWY_INLINE bool CodedBlock(Codes& codes, size_t group, const std::byte* other, size_t first,
                           const BoundedState& state, BoundedLanes& lanes, CodedCounts& counts) {
  constexpr FloatTag d;
  BoundedSums sums;
  for (size_t v = 0; v < kBoundedVectors; ++v) {
    sums.dot[v] = sums.npu_squares[v] = sums.bench_squares[v] = sums.difference_squares[v] =
        hn::Zero(d);
  }
  CodedCounts more = counts;
  Floats absolute = hn::Zero(d);
  Floats relative = hn::Zero(d);
  Floats excess = hn::Zero(d);
  const size_t step = HWY_MIN(group, kBoundedSumElements);
  for (size_t begin = first; begin < first + kBoundedSumElements; begin += step) {
    if (!codes.BeginGroup(begin, step)) {
      return false;
    }
    for (size_t i = begin; i < begin + step; i += kGroupElements) {
      for (size_t v = 0; v < kBoundedVectors; ++v) {
        Floats coded;
        Floats bound;
        codes.Load(i + v * kFloats, coded, bound);
        const Floats stored =
            BFloat16Source::Load(other + (i + v * kFloats) * BFloat16Source::kBytes);
        const Floats npu = kNpuIsCoded ? coded : stored;
        const Floats bench = kNpuIsCoded ? stored : coded;
        const Floats apart = hn::Abs(hn::Sub(npu, bench));
        more.equal = CountIn(more.equal, hn::Eq(npu, bench));
        if constexpr (Codes::kExactBounds) {
          more.within = CountIn(more.within, hn::Le(apart, bound));
        } else {
          excess = hn::Max(excess, hn::Sub(apart, bound));
        }
        const Floats divisor = kNpuIsCoded ? hn::Abs(bench)
                                           : hn::IfThenElse(hn::Eq(bench, hn::Zero(d)),
                                                            state.zero_divisor, hn::Abs(bench));
        absolute = hn::Max(absolute, apart);
        relative = hn::Max(relative, hn::NegMulAdd(state.relative_limit, divisor, apart));
        sums.dot[v] = hn::Add(sums.dot[v], hn::Mul(npu, bench));
        sums.npu_squares[v] = hn::Add(sums.npu_squares[v], hn::Mul(npu, npu));
        sums.bench_squares[v] = hn::Add(sums.bench_squares[v], hn::Mul(bench, bench));
        sums.difference_squares[v] = hn::Add(sums.difference_squares[v], hn::Mul(apart, apart));
      }
    }
  }
  const auto reached = hn::Or(hn::Gt(absolute, state.absolute_limit),
                              hn::Gt(hn::Max(relative, excess), hn::Zero(d)));
  if (HWY_UNLIKELY(!hn::AllFalse(d, reached))) {
    return false;
  }
  if constexpr (!Codes::kExactBounds) {
    const hn::RebindToUnsigned<FloatTag> du;
    more.within = hn::Add(more.within, hn::Set(du, kBoundedSumElements / kFloats));
  }
  counts = more;
  AddLanes(sums.dot, lanes.dot);
  AddLanes(sums.npu_squares, lanes.npu_square_sum);
  AddLanes(sums.bench_squares, lanes.bench_square_sum);
  AddLanes(sums.difference_squares, lanes.difference_square_sum);
  return true;
}

template <class Codes, bool kNpuIsCoded>
size_t CodedBlocks(const CodedRun& run, const std::byte* other, size_t first, size_t count,
                   const RelativeRule& rule, BoundedLanes& lanes) {
  const hn::RebindToUnsigned<FloatTag> du;
  BoundedState state;
  SetLimits(lanes, rule, state);
  if (!state.zeros_agree) {
    return 0;
  }
  Codes codes(run);
  CodedCounts counts = {hn::Zero(du), hn::Zero(du)};
  size_t done = 0;
  while (done < count && CodedBlock<Codes, kNpuIsCoded>(codes, run.group, other, first + done,
                                                        state, lanes, counts)) {
    done += kBoundedSumElements;
  }
  lanes.different_count += done - SumOfCounts(&counts.equal, 1);
  lanes.beyond += done - SumOfCounts(&counts.within, 1);
  return done;
}

template <class Codes>
size_t CodedSides(const CodedRun& run, bool npu_is_coded, const std::byte* other, size_t first,
                  size_t count, const RelativeRule& rule, BoundedLanes& lanes) {
  return npu_is_coded ? CodedBlocks<Codes, true>(run, other, first, count, rule, lanes)
                      : CodedBlocks<Codes, false>(run, other, first, count, rule, lanes);
}

size_t Coded(const CodedRun& run, bool npu_is_coded, const std::byte* other, size_t first,
             size_t count, const RelativeRule& rule, BoundedLanes& lanes) {
  if (run.group % kGroupElements != 0 ||
      (run.group % kBoundedSumElements != 0 && kBoundedSumElements % run.group != 0)) {
    return 0;
  }
  const auto compare = [&]<class Codes>(const Codes* /*type*/) {
    return CodedSides<Codes>(run, npu_is_coded, other, first, count, rule, lanes);
  };
  if (run.is_nibbles) {
    return run.order == NibbleOrder::kLowFirst
               ? compare(static_cast<const NibbleCodes<true>*>(nullptr))
               : compare(static_cast<const NibbleCodes<false>*>(nullptr));
  }
  switch (run.code) {
    case ByteCode::kFloat8E4M3:
      return compare(static_cast<const Float8Codes<E4M3Bits>*>(nullptr));
    case ByteCode::kFloat8E5M2:
      return compare(static_cast<const Float8Codes<E5M2Bits>*>(nullptr));
    case ByteCode::kInt8:
      break;
  }
  return compare(static_cast<const Int8Codes*>(nullptr));
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace msprobe::kernels::internal
HWY_AFTER_NAMESPACE();
