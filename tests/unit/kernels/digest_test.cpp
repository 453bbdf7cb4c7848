// Sums of a digest against a loop that follows docs/design/digest.md word by word, for every
// implementation, dtype, cast, length and place; and what they promise: any cut gives the same sum,
// exact casts keep it, single changes, exchanges and opposite changes do not.
#include "src/kernels/digest.h"

#include <algorithm>
#include <bit>
#include <random>
#include <set>

#include "tests/unit/kernels/test_values.h"

namespace msprobe::kernels {
namespace {

uint64_t DigestMix(uint64_t z) {
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

constexpr uint64_t kGoldenStep = 0x9E3779B97F4A7C15U;

uint64_t KeyOf(bool second, uint64_t index, uint64_t word) {
  const uint64_t seed = second ? 0x13198A2E03707344U : 0x243F6A8885A308D3U;
  const uint64_t chunk_seed = second ? 0x082EFA98EC4E6C89U : 0xA4093822299F31D0U;
  const uint64_t inner = (DigestMix(seed + (word * 1024 + index % 1024) * kGoldenStep) >> 32U) | 1U;
  return inner * (DigestMix(chunk_seed + index / 1024 * kGoldenStep) | 1U);
}

float CastTo(double value, DigestCast cast) {
  const auto narrow = static_cast<float>(value);
  return cast == DigestCast::kBFloat16  ? tensor::BFloat16ToFloat(tensor::FloatToBFloat16(narrow))
         : cast == DigestCast::kFloat16 ? tensor::Float16ToFloat(tensor::FloatToFloat16(narrow))
                                        : narrow;
}

std::vector<uint64_t> WordsOfDouble(double value) {
  const auto narrow = static_cast<float>(value);
  if (std::isnan(value)) {
    return {0x7FC00000U, 0};
  }
  if (static_cast<double>(narrow) == value) {
    return {std::bit_cast<uint32_t>(narrow), 0};
  }
  const auto bits = std::bit_cast<uint64_t>(value);
  return {bits & 0xFFFFFFFFU, (bits >> 32U) + 1};
}

std::vector<uint64_t> WordsAt(DType dtype, DigestCast cast, const std::byte* data, size_t index) {
  const DTypeKind kind = GetDTypeInfo(dtype).kind;
  if (kind == DTypeKind::kFloat) {
    const double value = ElementAt(dtype, data, index).real();
    return cast == DigestCast::kNone ? WordsOfDouble(value) : WordsOfDouble(CastTo(value, cast));
  }
  if (kind == DTypeKind::kComplex) {
    const std::complex<double> value = ElementAt(dtype, data, index);
    std::vector<uint64_t> words = WordsOfDouble(value.real());
    const std::vector<uint64_t> more = WordsOfDouble(value.imag());
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  const std::byte* at = data + index * DTypeSize(dtype);
  uint64_t bits = 0;
  if (kind == DTypeKind::kBool) {
    bits = at[0] != std::byte{0} ? 1 : 0;
  } else {
    std::memcpy(&bits, at, DTypeSize(dtype));
    const size_t shift = 64 - 8 * DTypeSize(dtype);
    bits <<= shift;
    bits = kind == DTypeKind::kSigned ? static_cast<uint64_t>(static_cast<int64_t>(bits) >> shift)
                                      : bits >> shift;
  }
  return {bits & 0xFFFFFFFFU, bits >> 32U};
}

DigestSums NaiveKeyedSum(DType dtype, DigestCast cast, const std::vector<std::byte>& data,
                         uint64_t first) {
  DigestSums sums;
  const size_t count = data.size() / DTypeSize(dtype);
  for (size_t i = 0; i < count; ++i) {
    const std::vector<uint64_t> words = WordsAt(dtype, cast, data.data(), i);
    for (size_t word = 0; word < words.size(); ++word) {
      const uint64_t mixed = words[word] ^ (words[word] >> 16U);
      sums.a += KeyOf(false, first + i, word) * mixed;
      sums.b += KeyOf(true, first + i, word) * mixed;
    }
  }
  return sums;
}

DigestSums KeyedSumOf(DType dtype, DigestCast cast, std::span<const std::byte> data,
                      uint64_t first) {
  DigestSums sums;
  AddToDigest(dtype, cast, data, first, sums);
  return sums;
}

// Any bits, with special values among them; bool has no patterns but 0 and 1.
std::vector<std::byte> AnyBits(DType dtype, size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(count * DTypeSize(dtype));
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(dtype == DType::kBool ? random() & 1U : random());
  }
  if (dtype == DType::kFloat32) {
    const uint32_t special[] = {0x7F800001, 0xFFC12345, 0x7F800000, 0xFF800000, 0x80000000,
                                0x00000001, 0x3F808000, 0x3F818000, 0x477FF000, 0x33000000};
    for (size_t i = 0; i < std::min(count, std::size(special)); ++i) {
      ToBytes(special[i], bytes.data() + 4 * i);
    }
  }
  return bytes;
}

class KeyedSums : public EveryTable {};

TEST_P(KeyedSums, EveryTypeCastLengthAndPlaceIsAsTheDefinitionSays) {
  constexpr DigestCast kCasts[] = {DigestCast::kNone, DigestCast::kFloat32, DigestCast::kBFloat16,
                                   DigestCast::kFloat16};
  for (const DType dtype : kAllDTypes) {
    for (const DigestCast cast : kCasts) {
      for (const size_t count : {0, 1, 7, 15, 16, 17, 40, 1023, 1024, 1025, 3000}) {
        for (const uint64_t first :
             {uint64_t{0}, uint64_t{5}, uint64_t{1020}, uint64_t{1} << 40U}) {
          const std::vector<std::byte> data =
              AnyBits(dtype, count, static_cast<uint32_t>(count + first % 97));
          EXPECT_EQ(KeyedSumOf(dtype, cast, data, first), NaiveKeyedSum(dtype, cast, data, first))
              << DTypeName(dtype) << " cast " << static_cast<int>(cast) << ", " << count
              << " elements from " << first;
        }
      }
    }
  }
}

TEST_P(KeyedSums, AnyCutAddsUpToTheWhole) {
  std::mt19937 random(3);
  for (const DType dtype : kAllDTypes) {
    const size_t size = DTypeSize(dtype);
    const std::vector<std::byte> data = AnyBits(dtype, 5000, 11);
    const DigestSums whole = KeyedSumOf(dtype, DigestCast::kNone, data, 123);
    for (int round = 0; round < 10; ++round) {
      DigestSums sums;
      for (size_t at = 0; at < 5000;) {
        const size_t count = std::min<size_t>(5000 - at, 1 + random() % 1500);
        AddToDigest(dtype, DigestCast::kNone, std::span(data).subspan(at * size, count * size),
                    123 + at, sums);
        at += count;
      }
      EXPECT_EQ(sums, whole) << DTypeName(dtype);
    }
  }
}

MSPROBE_FOR_EVERY_TABLE(KeyedSums);

TEST(KeyedSum, ExactCastsKeepItAndDeclaredOnesAreThoseOfTheNarrowType) {
  std::mt19937 random(7);
  std::vector<float> wide(3000);
  std::vector<double> wider;
  std::vector<uint16_t> narrow;
  std::vector<float> exact;
  for (float& value : wide) {
    value = std::uniform_real_distribution<float>(-4, 4)(random);
    narrow.push_back(tensor::FloatToBFloat16(value));
    exact.push_back(tensor::BFloat16ToFloat(narrow.back()));
    wider.push_back(exact.back());
  }
  const DigestSums expected =
      KeyedSumOf(DType::kBFloat16, DigestCast::kNone, std::as_bytes(std::span(narrow)), 9);
  EXPECT_EQ(KeyedSumOf(DType::kFloat32, DigestCast::kNone, BytesOf(exact), 9), expected);
  EXPECT_EQ(KeyedSumOf(DType::kFloat64, DigestCast::kNone, std::as_bytes(std::span(wider)), 9),
            expected);
  EXPECT_EQ(KeyedSumOf(DType::kFloat32, DigestCast::kBFloat16, BytesOf(wide), 9), expected);
  EXPECT_NE(KeyedSumOf(DType::kFloat32, DigestCast::kNone, BytesOf(wide), 9), expected);
  const int8_t small[] = {-1, 2, -128};
  const int64_t large[] = {-1, 2, -128};
  EXPECT_EQ(KeyedSumOf(DType::kInt8, DigestCast::kNone, std::as_bytes(std::span(small)), 0),
            KeyedSumOf(DType::kInt64, DigestCast::kNone, std::as_bytes(std::span(large)), 0));
}

TEST(KeyedSum, SingleChangesExchangesAndOppositeChangesShowInBothKeys) {
  std::mt19937 random(8);
  std::vector<float> values(4096);
  for (float& value : values) {
    value = std::uniform_real_distribution<float>(-1, 1)(random);
  }
  const DigestSums before = KeyedSumOf(DType::kFloat32, DigestCast::kNone, BytesOf(values), 0);
  const auto expect_seen = [&](const std::vector<float>& changed) {
    const DigestSums after = KeyedSumOf(DType::kFloat32, DigestCast::kNone, BytesOf(changed), 0);
    EXPECT_NE(after.a, before.a);
    EXPECT_NE(after.b, before.b);
  };
  for (int round = 0; round < 2000; ++round) {
    const size_t i = random() % values.size();
    const size_t j = random() % values.size();
    std::vector<float> changed = values;
    changed[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(changed[i]) ^ 1U << random() % 32);
    expect_seen(changed);
    changed = values;
    std::swap(changed[i], changed[j]);
    if (i != j && values[i] != values[j]) {
      expect_seen(changed);
    }
    changed = values;
    changed[i] += 0.25F;
    changed[j] -= 0.25F;
    if (i != j) {
      expect_seen(changed);
      changed = values;
      changed[i] = -changed[i];
      changed[j] = -changed[j];
      expect_seen(changed);
    }
  }
}

TEST(KeyedSum, ZerosHaveSignsAndEveryNanIsTheSame) {
  const float zero[] = {0.0F};
  const float minus[] = {-0.0F};
  EXPECT_NE(KeyedSumOf(DType::kFloat32, DigestCast::kNone, std::as_bytes(std::span(zero)), 0),
            KeyedSumOf(DType::kFloat32, DigestCast::kNone, std::as_bytes(std::span(minus)), 0));
  const uint32_t one[] = {0x7F800001U};
  const uint32_t other[] = {0xFFFFFFFFU};
  for (const DigestCast cast : {DigestCast::kNone, DigestCast::kBFloat16, DigestCast::kFloat16}) {
    EXPECT_EQ(KeyedSumOf(DType::kFloat32, cast, std::as_bytes(std::span(one)), 0),
              KeyedSumOf(DType::kFloat32, cast, std::as_bytes(std::span(other)), 0));
  }
}

// Each an odd number (a changed element changes the sum for certain) and all different within a
// chunk (so does an exchange).
TEST(KeyedSum, KeysOfAChunkAreOddAndDifferent) {
  const internal::DigestKeys& keys = internal::KeysOfDigest();
  for (const auto* table : {&keys.a, &keys.b}) {
    for (const auto& word : *table) {
      std::set<uint32_t> seen;
      for (const uint32_t key : word) {
        EXPECT_EQ(key % 2, 1U);
        EXPECT_TRUE(seen.insert(key).second);
      }
    }
  }
}

}  // namespace
}  // namespace msprobe::kernels
