// The vector loops of digest.h, included behind ratios-inl.h by simd-inl.h. Two products of 32 x 32
// -> 64 bits per key take the even and the odd lanes; sums modulo 2^64 know no order, so that lanes
// need no care.

#ifndef MSPROBE_KERNEL_TABLE
#error "included by kernels_<instruction set>.cpp only"
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace msprobe::kernels::internal {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Words = hn::Vec<hn::RebindToUnsigned<FloatTag>>;
using WideTag = hn::ScalableTag<uint64_t>;
using Wides = hn::Vec<WideTag>;

// DigestWord and DigestBits of scalar_steps.h, of rounded values.
template <class Source, class Round>
HWY_INLINE Words DigestWords(const std::byte* data) {
  const hn::RebindToUnsigned<FloatTag> du;
  const hn::RebindToSigned<FloatTag> di;
  const auto value = Source::Load(data);
  const auto is_nan =
      hn::Gt(hn::BitCast(di, hn::And(hn::BitCast(du, value), hn::Set(du, 0x7FFFFFFF))),
             hn::Set(di, 0x7F800000));
  const auto bits = hn::IfThenElse(hn::RebindMask(du, is_nan), hn::Set(du, 0x7FC00000),
                                   hn::BitCast(du, Round::Round(FloatTag(), value)));
  return hn::Xor(bits, hn::ShiftRight<16>(bits));
}

// The upper word of each pair in the place of the lower one.
HWY_INLINE Words Uppers(Words words) {
  return hn::BitCast(hn::RebindToUnsigned<FloatTag>(),
                     hn::ShiftRight<32>(hn::BitCast(WideTag(), words)));
}

HWY_INLINE void AddProducts(Words words, Words uppers, const uint32_t* keys, Wides& even,
                            Wides& odd) {
  const auto key = hn::LoadU(hn::RebindToUnsigned<FloatTag>(), keys);
  even = hn::Add(even, hn::MulEven(words, key));
  odd = hn::Add(odd, hn::MulEven(uppers, Uppers(key)));
}

HWY_INLINE uint64_t SumOfWides(Wides wides) {
  HWY_ALIGN uint64_t lanes[HWY_LANES(uint64_t)];
  hn::Store(wides, WideTag(), lanes);
  uint64_t sum = 0;
  for (const uint64_t lane : lanes) {
    sum += lane;
  }
  return sum;
}

template <class Source, class Round>
void Digest(const std::byte* data, size_t count, const DigestKeys& keys, size_t place,
            uint64_t* sums) {
  const uint32_t* keys_a = keys.a[0] + place;
  const uint32_t* keys_b = keys.b[0] + place;
  const WideTag dw;
  Wides even_a = hn::Zero(dw);
  Wides odd_a = even_a;
  Wides even_b = even_a;
  Wides odd_b = even_a;
  for (size_t i = 0; i < count; i += kFloats) {
    if (i % kGroupElements == 0) {
      PrefetchGroup<Source>(data + i * Source::kBytes);
    }
    const Words words = DigestWords<Source, Round>(data + i * Source::kBytes);
    const Words uppers = Uppers(words);
    AddProducts(words, uppers, keys_a + i, even_a, odd_a);
    AddProducts(words, uppers, keys_b + i, even_b, odd_b);
  }
  sums[0] += SumOfWides(hn::Add(even_a, odd_a));
  sums[1] += SumOfWides(hn::Add(even_b, odd_b));
}

// Elements of bfloat16: the word of bits h is h * (2^16 + 1), so that it is enough to multiply h
// with the keys. Products of signed numbers of 16 bits, two of which are added, are one step: h
// less 2^15 with each digit of the keys. Sums of digits stay below 2^31 for sixteen of them, and
// 2^15 times all keys is added in the end.
using Signed16Tag = hn::ScalableTag<int16_t>;
using Signed32Tag = hn::ScalableTag<int32_t>;
using Signed32 = hn::Vec<Signed32Tag>;
constexpr size_t kShorts = HWY_LANES(int16_t);
constexpr size_t kDigitSteps = 16;
static_assert(kDigitSteps * 2 * 0x8000 * ((1LL << kDigestDigitBits) - 1) < 1LL << 31);

// One digit. Some processors add up pairs of products, others every second one.
struct DigitSum {
  Signed32 first;
  Signed32 second;

  HWY_INLINE void Clear() { first = second = hn::Zero(Signed32Tag()); }
  HWY_INLINE void Add(hn::Vec<Signed16Tag> number, const int16_t* digits) {
    const auto digit = hn::LoadU(Signed16Tag(), digits);
    first = hn::ReorderWidenMulAccumulate(Signed32Tag(), number, digit, first, second);
  }
  HWY_INLINE Wides Total() const {
    const hn::ScalableTag<int64_t> dw;
    const hn::Half<Signed32Tag> dh;
    const auto sum = hn::Add(first, second);
    return hn::BitCast(WideTag(), hn::Add(hn::PromoteTo(dw, hn::LowerHalf(dh, sum)),
                                          hn::PromoteTo(dw, hn::UpperHalf(dh, sum))));
  }
};

struct DigitSums {
  DigitSum low;
  DigitSum middle;
  DigitSum high;

  HWY_INLINE void Clear() {
    low.Clear();
    middle.Clear();
    high.Clear();
  }
};

HWY_INLINE void AddDigits(hn::Vec<Signed16Tag> number, const int16_t (&digits)[3][kDigestChunk],
                          size_t place, DigitSums& sums) {
  sums.low.Add(number, digits[0] + place);
  sums.middle.Add(number, digits[1] + place);
  sums.high.Add(number, digits[2] + place);
}

HWY_INLINE Wides SumOfDigits(const DigitSums& sums) {
  return hn::Add(sums.low.Total(), hn::Add(hn::ShiftLeft<kDigestDigitBits>(sums.middle.Total()),
                                           hn::ShiftLeft<2 * kDigestDigitBits>(sums.high.Total())));
}

void DigestBFloat16(const std::byte* data, size_t count, const DigestKeys& keys, size_t place,
                    uint64_t* sums) {
  constexpr Signed16Tag d16;
  const size_t vectors = count / kShorts * kShorts;
  Wides found_a = hn::Zero(WideTag());
  Wides found_b = found_a;
  for (size_t first = 0; first < vectors;) {
    DigitSums a;
    DigitSums b;
    a.Clear();
    b.Clear();
    const size_t end = HWY_MIN(vectors, first + kDigitSteps * kShorts);
    for (; first < end; first += kShorts) {
      hwy::Prefetch(data + first * 2 + kPrefetchBytes);
      const auto stored = LoadBytes(d16, data + first * 2);
      const auto is_nan = hn::Gt(hn::And(stored, hn::Set(d16, 0x7FFF)), hn::Set(d16, 0x7F80));
      const auto bits = hn::IfThenElse(is_nan, hn::Set(d16, 0x7FC0), stored);
      const auto number = hn::Xor(bits, hn::Set(d16, static_cast<int16_t>(0x8000)));
      AddDigits(number, keys.digits_a, place + first, a);
      AddDigits(number, keys.digits_b, place + first, b);
    }
    found_a = hn::Add(found_a, SumOfDigits(a));
    found_b = hn::Add(found_b, SumOfDigits(b));
  }
  constexpr uint64_t kWordOfBits = 0x10001;
  const size_t past = place + vectors;
  const uint64_t keys_a = keys.before_a[past] - keys.before_a[place];
  const uint64_t keys_b = keys.before_b[past] - keys.before_b[place];
  sums[0] += kWordOfBits * (SumOfWides(found_a) + 0x8000 * keys_a);
  sums[1] += kWordOfBits * (SumOfWides(found_b) + 0x8000 * keys_b);
  if (vectors < count) {
    Digest<BFloat16Source, Unrounded>(data + vectors * 2, count - vectors, keys, past, sums);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace msprobe::kernels::internal
HWY_AFTER_NAMESPACE();
