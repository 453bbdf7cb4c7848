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
HWY_INLINE void ScaleNibbles(const NibbleRule& rule, size_t first, Floats& number, Floats& bound) {
  constexpr FloatTag d;
  number = hn::Sub(hn::Load(d, rule.numbers + first), hn::Set(d, rule.zero));
  const Floats magnitude = hn::Abs(number);
  const Floats more =
      hn::Min(hn::Mul(hn::Add(magnitude, hn::Set(d, rule.added)), hn::Set(d, rule.relative)),
              hn::Set(d, rule.most_steps));
  bound = hn::Add(hn::Mul(hn::Set(d, rule.reach), hn::Add(hn::Load(d, rule.steps + first), more)),
                  hn::Mul(magnitude, hn::Set(d, rule.error)));
  number = hn::Mul(number, hn::Set(d, rule.scale));
}

template <bool kLowFirst>
void NibblesTo(const std::byte* bytes, size_t count, const NibbleRule& rule, float* values,
               float* bounds) {
  TableOf16 number_of;
  TableOf16 bound_of;
  ScaleNibbles(rule, 0, number_of.low, bound_of.low);
  if constexpr (kFloats == 16) {
    number_of.high = number_of.low;
    bound_of.high = bound_of.low;
  } else {
    ScaleNibbles(rule, 8, number_of.high, bound_of.high);
  }
  if (bounds == nullptr) {
    NibblesWith<kLowFirst, false>(bytes, count, number_of, bound_of, values, bounds);
  } else {
    NibblesWith<kLowFirst, true>(bytes, count, number_of, bound_of, values, bounds);
  }
}

void Nibbles(const std::byte* bytes, size_t count, NibbleOrder order, const NibbleRule& rule,
             float* values, float* bounds) {
  if (order == NibbleOrder::kLowFirst) {
    NibblesTo<true>(bytes, count, rule, values, bounds);
  } else {
    NibblesTo<false>(bytes, count, rule, values, bounds);
  }
}
#else
void Nibbles(const std::byte* bytes, size_t count, NibbleOrder order, const NibbleRule& rule,
             float* values, float* bounds) {
  NibbleSteps(bytes, count, order, rule, values, bounds);
}
#endif

// An 8-bit float with its exponent moved to that of float32. Codes without an exponent are made
// with one and corrected: subnormal numbers would cost the processor a hundred cycles each.
template <class Format>
void Float8To(const std::byte* codes, size_t count, const ByteRule& rule, float* values_out,
              float* bounds_out) {
  constexpr FloatTag d;
  const hn::RebindToUnsigned<FloatTag> du;
  const hn::RebindToSigned<FloatTag> di;
  const hn::Rebind<uint8_t, FloatTag> d8;
  const Floats scale = hn::Set(d, rule.scale);
  const Floats size = hn::Set(d, rule.size);
  const Floats least = hn::Set(d, Format::kSmallestNormal);
  const Floats inner = hn::Set(d, rule.inner_steps);
  const Floats end = hn::Set(d, rule.end_steps);
  const Floats relative = hn::Set(d, rule.relative);
  for (size_t i = 0; i < count; i += kFloats) {
    const auto code = hn::PromoteTo(du, LoadBytes(d8, codes + i));
    const auto magnitude = hn::And(code, hn::Set(du, 0x7F));
    const auto ordered = hn::BitCast(di, magnitude);
    const Floats raised = hn::BitCast(
        d, hn::Add(hn::ShiftLeft<23 - Format::kFraction>(magnitude), hn::Set(du, Format::kRaised)));
    const auto has_no_exponent =
        hn::RebindMask(d, hn::Lt(ordered, hn::Set(di, 1 << Format::kFraction)));
    Floats number =
        hn::IfThenElse(has_no_exponent, hn::Add(raised, hn::Sub(raised, least)), raised);
    const auto special =
        hn::RebindMask(d, hn::Gt(ordered, hn::Set(di, static_cast<int32_t>(Format::kLargest))));
    if constexpr (Format::kHasInfinity) {
      const auto infinity =
          hn::Eq(ordered, hn::Set(di, static_cast<int32_t>(Format::kLargest) + 1));
      number = hn::IfThenElse(special, hn::NaN(d), number);
      number = hn::IfThenElse(hn::RebindMask(d, infinity), hn::Inf(d), number);
    } else {
      number = hn::IfThenElse(special, hn::NaN(d), number);
    }
    const auto sign = hn::ShiftLeft<24>(hn::And(code, hn::Set(du, 0x80)));
    const Floats value = hn::BitCast(d, hn::Or(hn::BitCast(du, number), sign));
    hn::StoreU(hn::Mul(value, scale), d, values_out + i);
    if (bounds_out != nullptr) {
      const Floats power =
          hn::BitCast(d, hn::And(hn::BitCast(du, raised), hn::Set(du, 0x7F800000)));
      const Floats gap = hn::Mul(hn::Max(power, least), hn::Set(d, Format::kGap));
      const auto is_end =
          hn::RebindMask(d, hn::Eq(ordered, hn::Set(di, static_cast<int32_t>(Format::kLargest))));
      const Floats steps = hn::IfThenElse(is_end, end, inner);
      const Floats bound = hn::Add(hn::Mul(gap, steps), hn::Mul(number, relative));
      hn::StoreU(hn::Mul(hn::IfThenZeroElse(special, bound), size), d, bounds_out + i);
    }
  }
}

void Int8To(const std::byte* codes, size_t count, const ByteRule& rule, float* values_out,
            float* bounds_out) {
  constexpr FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  const hn::Rebind<int8_t, FloatTag> d8;
  const Floats scale = hn::Set(d, rule.scale);
  const Floats size = hn::Set(d, rule.size);
  for (size_t i = 0; i < count; i += kFloats) {
    const Floats number = hn::ConvertTo(d, hn::PromoteTo(di, LoadBytes(d8, codes + i)));
    hn::StoreU(hn::Mul(number, scale), d, values_out + i);
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

void Bytes(ByteCode code, const std::byte* codes, size_t count, const ByteRule& rule, float* values,
           float* bounds) {
  switch (code) {
    case ByteCode::kFloat8E4M3:
      return Float8To<E4M3Bits>(codes, count, rule, values, bounds);
    case ByteCode::kFloat8E5M2:
      return Float8To<E5M2Bits>(codes, count, rule, values, bounds);
    case ByteCode::kInt8:
      return Int8To(codes, count, rule, values, bounds);
  }
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
  Doubles dot[kCompareSums];
  Doubles npu_square_sum[kCompareSums];
  Doubles bench_square_sum[kCompareSums];
  Doubles difference_square_sum[kCompareSums];
  Doubles npu_sum[kCompareSums];
  Doubles bench_sum[kCompareSums];
  hn::Vec<hn::RebindToUnsigned<FloatTag>> different;
  hn::Vec<hn::RebindToUnsigned<FloatTag>> beyond;
  Floats absolute_limit;
  Floats relative_limit;
  Floats zero_divisor;
  Floats smallest;
};

HWY_INLINE void SetLimits(const CompareLanes& lanes, const RelativeRule& rule,
                          BoundedState& state) {
  constexpr FloatTag d;
  const BoundedLimits limits = LimitsOf(lanes, rule);
  state.absolute_limit = hn::Set(d, limits.absolute);
  state.relative_limit = hn::Set(d, limits.relative);
  state.zero_divisor = hn::Set(d, limits.zero_divisor);
  state.smallest = hn::Set(d, limits.smallest);
}

template <bool kSums, size_t v>
HWY_INLINE void BoundedVector(const float* npu_group, const float* bench_group,
                              const float* bound_group, const RelativeRule& rule,
                              BoundedLanes& lanes, BoundedState& state) {
  constexpr FloatTag d;
  constexpr DoubleTag dd;
  constexpr HalfFloatTag dh;
  const Floats npu = hn::LoadU(d, npu_group + v * kFloats);
  const Floats bench = hn::LoadU(d, bench_group + v * kFloats);
  const Floats bound = hn::LoadU(d, bound_group + v * kFloats);
  const Floats apart = hn::Abs(hn::Sub(npu, bench));
  state.different = CountIn(state.different, hn::Ne(npu, bench));
  state.beyond = CountIn(state.beyond, hn::Not(hn::Le(apart, bound)));
  const Floats divisor =
      hn::IfThenElse(hn::Eq(bench, hn::Zero(d)), state.zero_divisor, hn::Abs(bench));
  const Floats least = hn::Max(hn::Mul(state.relative_limit, divisor), state.smallest);
  const auto reached = hn::Or(hn::Ge(apart, least), hn::Ge(apart, state.absolute_limit));
  if (HWY_UNLIKELY(!hn::AllFalse(d, reached))) {
    for (size_t i = 0; i < kFloats; ++i) {
      LargestErrorsStep(npu_group[v * kFloats + i], bench_group[v * kFloats + i], rule, lanes);
    }
    SetLimits(lanes, rule, state);
  }
  const auto sums = [&](size_t half, size_t k) HWY_ATTR {
    const size_t at = v * kFloats + half * (kFloats / 2);
    const Doubles n = hn::PromoteTo(dd, hn::LoadU(dh, npu_group + at));
    const Doubles b = hn::PromoteTo(dd, hn::LoadU(dh, bench_group + at));
    const Doubles difference = hn::Sub(n, b);
    state.dot[k] = AddProduct<true>(n, b, state.dot[k]);
    state.npu_square_sum[k] = AddProduct<true>(n, n, state.npu_square_sum[k]);
    state.bench_square_sum[k] = AddProduct<true>(b, b, state.bench_square_sum[k]);
    state.difference_square_sum[k] =
        AddProduct<false>(difference, difference, state.difference_square_sum[k]);
    if constexpr (kSums) {
      state.npu_sum[k] = hn::Add(state.npu_sum[k], n);
      state.bench_sum[k] = hn::Add(state.bench_sum[k], b);
    }
  };
  sums(0, (2 * v) % kCompareSums);
  sums(1, (2 * v + 1) % kCompareSums);
}

template <bool kSums, size_t... v>
HWY_INLINE void BoundedGroup(std::index_sequence<v...> /*vectors*/, const float* npu,
                             const float* bench, const float* bounds, const RelativeRule& rule,
                             BoundedLanes& lanes, BoundedState& state) {
  (BoundedVector<kSums, v>(npu, bench, bounds, rule, lanes, state), ...);
}

template <bool kSums>
void BoundedRun(const float* npu, const float* bench, const float* bounds, size_t count,
                const RelativeRule& rule, BoundedLanes& lanes) {
  constexpr DoubleTag dd;
  BoundedState state;
  const auto for_sums = [&](const auto& each) HWY_ATTR {
    for (size_t k = 0; k < kCompareSums; ++k) {
      each(lanes.dot + k * kDoubles, state.dot[k]);
      each(lanes.npu_square_sum + k * kDoubles, state.npu_square_sum[k]);
      each(lanes.bench_square_sum + k * kDoubles, state.bench_square_sum[k]);
      each(lanes.difference_square_sum + k * kDoubles, state.difference_square_sum[k]);
      if constexpr (kSums) {
        each(lanes.npu_sum + k * kDoubles, state.npu_sum[k]);
        each(lanes.bench_sum + k * kDoubles, state.bench_sum[k]);
      }
    }
  };
  for_sums([&](const double* from, Doubles& sum) HWY_ATTR { sum = hn::LoadU(dd, from); });
  state.different = hn::Zero(hn::RebindToUnsigned<FloatTag>());
  state.beyond = state.different;
  SetLimits(lanes, rule, state);
  for (size_t i = 0; i < count; i += kGroupElements) {
    BoundedGroup<kSums>(std::make_index_sequence<kVectors<FloatTag>>(), npu + i, bench + i,
                        bounds + i, rule, lanes, state);
  }
  for_sums([&](double* to, const Doubles& sum) HWY_ATTR { hn::StoreU(sum, dd, to); });
  lanes.different_count += SumOfCounts(&state.different, 1);
  lanes.beyond += SumOfCounts(&state.beyond, 1);
}

void CompareBounded(const float* npu, const float* bench, const float* bounds, size_t count,
                    const RelativeRule& rule, bool sums, BoundedLanes& lanes) {
  if (sums) {
    BoundedRun<true>(npu, bench, bounds, count, rule, lanes);
  } else {
    BoundedRun<false>(npu, bench, bounds, count, rule, lanes);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace msprobe::kernels::internal
HWY_AFTER_NAMESPACE();
