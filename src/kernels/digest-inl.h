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
void Digest(const std::byte* data, size_t count, const uint32_t* keys_a, const uint32_t* keys_b,
            uint64_t* sums) {
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

}  // namespace HWY_NAMESPACE
}  // namespace msprobe::kernels::internal
HWY_AFTER_NAMESPACE();
