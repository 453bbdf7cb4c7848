// Sums of a digest. The elements of one chunk are multiplied with keys of 32 bits, 32 x 32 -> 64
// bits, which vector units do in one step (kernel_table.h); once per chunk the sum is multiplied
// with the chunk's own key. Elements of one word (floats of up to 32 bits) take the vector loops;
// others, which are few in any model, go one by one.
#include "src/kernels/digest.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>

#include "src/kernels/convert.h"
#include "src/kernels/kernel_table.h"
#include "src/kernels/scalar_steps.h"

namespace msprobe::kernels {
namespace {

using internal::DigestFunction;
using internal::DigestKeys;
using internal::KernelTable;

// SplitMix64's finisher (Steele, Lea, Flood 2014): a bijection of 64-bit numbers.
constexpr uint64_t Mixed(uint64_t bits) {
  bits = (bits ^ (bits >> 30U)) * 0xBF58476D1CE4E5B9U;
  bits = (bits ^ (bits >> 27U)) * 0x94D049BB133111EBU;
  return bits ^ (bits >> 31U);
}

constexpr uint64_t kStep = 0x9E3779B97F4A7C15U;  // 2^64 / golden ratio
// Digits of pi in hexadecimal: nothing up the sleeve.
constexpr uint64_t kSeedA = 0x243F6A8885A308D3U;
constexpr uint64_t kSeedB = 0x13198A2E03707344U;
constexpr uint64_t kChunkSeedA = 0xA4093822299F31D0U;
constexpr uint64_t kChunkSeedB = 0x082EFA98EC4E6C89U;

constexpr uint64_t ChunkKey(uint64_t seed, uint64_t chunk) {
  return Mixed(seed + chunk * kStep) | 1U;
}

void FillKeys(uint64_t seed, uint32_t (&keys)[4][kDigestChunk]) {
  for (uint64_t word = 0; word < 4; ++word) {
    for (uint64_t i = 0; i < kDigestChunk; ++i) {
      keys[word][i] =
          static_cast<uint32_t>(Mixed(seed + (word * kDigestChunk + i) * kStep) >> 32U) | 1U;
    }
  }
}

void SplitKeys(const uint32_t (&keys)[kDigestChunk], int16_t (&digits)[3][kDigestChunk],
               uint64_t (&before)[kDigestChunk + 1]) {
  constexpr uint32_t kDigit = (1U << internal::kDigestDigitBits) - 1;
  before[0] = 0;
  for (size_t i = 0; i < kDigestChunk; ++i) {
    for (unsigned digit = 0; digit < 3; ++digit) {
      digits[digit][i] =
          static_cast<int16_t>(keys[i] >> (digit * internal::kDigestDigitBits) & kDigit);
    }
    before[i + 1] = before[i] + keys[i];
  }
}

struct OneWordLoop {
  DigestFunction KernelTable::*loop = nullptr;
  size_t bytes = 0;
};

// The loop that reads elements as they are stored; none: they are widened to float32 first.
OneWordLoop LoopOf(DType dtype, DigestCast cast) {
  switch (dtype) {
    case DType::kFloat32:
      return {cast == DigestCast::kBFloat16  ? &KernelTable::digest_float32_as_bfloat16
              : cast == DigestCast::kFloat16 ? &KernelTable::digest_float32_as_float16
                                             : &KernelTable::digest_float32,
              4};
    case DType::kBFloat16:
      return cast == DigestCast::kFloat16 ? OneWordLoop{}
                                          : OneWordLoop{&KernelTable::digest_bfloat16, 2};
    case DType::kFloat16:
      return cast == DigestCast::kBFloat16 ? OneWordLoop{}
                                           : OneWordLoop{&KernelTable::digest_float16, 2};
    default:
      return {};
  }
}

// At most the rest of one chunk.
void AddRun(DigestFunction KernelTable::*loop, size_t element_bytes, const std::byte* data,
            size_t count, size_t place, DigestSums& products) {
  const DigestKeys& keys = internal::KeysOfDigest();
  const size_t grouped = count / internal::kGroupElements * internal::kGroupElements;
  uint64_t found[2] = {};
  (internal::ActiveTable().*loop)(data, grouped, keys, place, found);
  if (grouped < count) {
    (internal::PlainTable().*loop)(data + grouped * element_bytes, count - grouped, keys,
                                   place + grouped, found);
  }
  products += {found[0], found[1]};
}

// Calls add(first element, count, place in the chunk) -> products for each chunk.
template <typename Add>
void ForEachChunk(size_t count, uint64_t first, DigestSums& sums, Add add) {
  for (size_t at = 0; at < count;) {
    const uint64_t index = first + at;
    const size_t place = index % kDigestChunk;
    const size_t size = std::min(count - at, kDigestChunk - place);
    DigestSums products;
    add(at, size, place, products);
    sums.a += products.a * ChunkKey(kChunkSeedA, index / kDigestChunk);
    sums.b += products.b * ChunkKey(kChunkSeedB, index / kDigestChunk);
    at += size;
  }
}

using Words = std::array<uint32_t, 4>;

// A double as two words: the float32 that equals it and 0, else all of its bits. The second word of
// the latter is never 0: no number has an upper half of ones only.
void PutDouble(double value, uint32_t* words) {
  const auto narrow = static_cast<float>(value);
  if (value != value || static_cast<double>(narrow) == value) {
    words[0] = internal::DigestBits(std::bit_cast<uint32_t>(narrow));
    words[1] = 0;
    return;
  }
  const auto bits = std::bit_cast<uint64_t>(value);
  words[0] = static_cast<uint32_t>(bits);
  words[1] = static_cast<uint32_t>(bits >> 32U) + 1;
}

template <typename Value>
Value Loaded(const std::byte* data) {
  Value value;
  std::memcpy(&value, data, sizeof(value));
  return value;
}

void PutInteger(uint64_t value, Words& words) {
  words[0] = static_cast<uint32_t>(value);
  words[1] = static_cast<uint32_t>(value >> 32U);
}

template <typename Value>
void PutStored(const std::byte* data, Words& words) {
  // Signed ones are extended, so that a wider type has the same words.
  PutInteger(static_cast<uint64_t>(static_cast<int64_t>(Loaded<Value>(data))), words);
}

Words WordsOf(DType dtype, const std::byte* data) {
  Words words = {};
  switch (dtype) {
    case DType::kFloat64:
      PutDouble(Loaded<double>(data), words.data());
      break;
    case DType::kComplex64:
      PutDouble(Loaded<float>(data), words.data());
      PutDouble(Loaded<float>(data + 4), words.data() + 2);
      break;
    case DType::kComplex128:
      PutDouble(Loaded<double>(data), words.data());
      PutDouble(Loaded<double>(data + 8), words.data() + 2);
      break;
    case DType::kInt64:
      PutStored<int64_t>(data, words);
      break;
    case DType::kInt32:
      PutStored<int32_t>(data, words);
      break;
    case DType::kInt16:
      PutStored<int16_t>(data, words);
      break;
    case DType::kInt8:
      PutStored<int8_t>(data, words);
      break;
    case DType::kUInt64:
      PutInteger(Loaded<uint64_t>(data), words);
      break;
    case DType::kUInt32:
      PutStored<uint32_t>(data, words);
      break;
    case DType::kUInt16:
      PutStored<uint16_t>(data, words);
      break;
    case DType::kUInt8:
      PutStored<uint8_t>(data, words);
      break;
    case DType::kBool:
      PutInteger(data[0] != std::byte{0} ? 1 : 0, words);
      break;
    default:
      break;
  }
  return words;
}

void AddWords(DType dtype, const std::byte* data, size_t count, uint64_t first, DigestSums& sums) {
  const DigestKeys& keys = internal::KeysOfDigest();
  const size_t bytes = DTypeSize(dtype);
  ForEachChunk(count, first, sums, [&](size_t at, size_t size, size_t place, DigestSums& products) {
    for (size_t i = 0; i < size; ++i) {
      const Words words = WordsOf(dtype, data + (at + i) * bytes);
      for (size_t word = 0; word < words.size(); ++word) {
        const uint64_t mixed = internal::DigestWord(words[word]);
        products.a += keys.a[word][place + i] * mixed;
        products.b += keys.b[word][place + i] * mixed;
      }
    }
  });
}

bool HasOneWord(DType dtype, DigestCast cast) {
  return GetDTypeInfo(dtype).kind == DTypeKind::kFloat &&
         (dtype != DType::kFloat64 || cast != DigestCast::kNone);
}

}  // namespace

const internal::DigestKeys& internal::KeysOfDigest() {
  static const auto keys = [] {
    auto made = std::make_unique<DigestKeys>();
    FillKeys(kSeedA, made->a);
    FillKeys(kSeedB, made->b);
    SplitKeys(made->a[0], made->digits_a, made->before_a);
    SplitKeys(made->b[0], made->digits_b, made->before_b);
    return made;
  }();
  return *keys;
}

void AddToDigest(DType dtype, DigestCast cast, std::span<const std::byte> data, uint64_t first,
                 DigestSums& sums) {
  const size_t bytes = DTypeSize(dtype);
  const size_t count = data.size() / bytes;
  if (!HasOneWord(dtype, cast)) {
    AddWords(dtype, data.data(), count, first, sums);
    return;
  }
  const OneWordLoop stored = LoopOf(dtype, cast);
  if (stored.loop != nullptr) {
    ForEachChunk(
        count, first, sums, [&](size_t at, size_t size, size_t place, DigestSums& products) {
          AddRun(stored.loop, stored.bytes, data.data() + at * bytes, size, place, products);
        });
    return;
  }
  const OneWordLoop widened = LoopOf(DType::kFloat32, cast);
  std::array<float, kDigestChunk> floats;
  ForEachChunk(count, first, sums, [&](size_t at, size_t size, size_t place, DigestSums& products) {
    const std::span<float> run = std::span(floats).first(size);
    WidenToFloat(dtype, data.subspan(at * bytes, size * bytes), run);
    AddRun(widened.loop, 4, std::as_bytes(run).data(), size, place, products);
  });
}

}  // namespace msprobe::kernels
