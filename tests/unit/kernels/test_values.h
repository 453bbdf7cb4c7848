// Test data for every dtype, and a slow reading of it that shares no code with the kernels' loops.
#pragma once

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "msprobe/dtype.h"

#include "src/kernels/kernel_table.h"
#include "src/tensor/float_bits.h"

namespace msprobe::kernels {

inline constexpr DType kAllDTypes[] = {
    DType::kFloat64,      DType::kFloat32,    DType::kFloat16,        DType::kBFloat16,
    DType::kFloat8E4M3FN, DType::kFloat8E5M2, DType::kFloat8E4M3FNUZ, DType::kFloat8E5M2FNUZ,
    DType::kInt64,        DType::kInt32,      DType::kInt16,          DType::kInt8,
    DType::kUInt64,       DType::kUInt32,     DType::kUInt16,         DType::kUInt8,
    DType::kBool,         DType::kComplex64,  DType::kComplex128};

enum class Mix {
  kOrdinary,
  kSpecial
};  // special: NaN, infinities, zeros of both signs, subnormals, huge values

template <class T>
T FromBytes(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof(value));
  return value;
}

template <class T>
void ToBytes(T value, std::byte* data) {
  std::memcpy(data, &value, sizeof(value));
}

// The element as a complex double; real dtypes have no imaginary part.
inline std::complex<double> ElementAt(DType dtype, const std::byte* data, size_t index) {
  const std::byte* at = data + index * DTypeSize(dtype);
  switch (dtype) {
    case DType::kFloat64:
      return FromBytes<double>(at);
    case DType::kFloat32:
      return static_cast<double>(FromBytes<float>(at));
    case DType::kFloat16:
      return static_cast<double>(tensor::Float16ToFloat(FromBytes<uint16_t>(at)));
    case DType::kBFloat16:
      return static_cast<double>(tensor::BFloat16ToFloat(FromBytes<uint16_t>(at)));
    case DType::kFloat8E4M3FN:
      return static_cast<double>(tensor::Float8E4M3FNToFloat(FromBytes<uint8_t>(at)));
    case DType::kFloat8E5M2:
      return static_cast<double>(tensor::Float8E5M2ToFloat(FromBytes<uint8_t>(at)));
    case DType::kFloat8E4M3FNUZ:
      return static_cast<double>(tensor::Float8E4M3FNUZToFloat(FromBytes<uint8_t>(at)));
    case DType::kFloat8E5M2FNUZ:
      return static_cast<double>(tensor::Float8E5M2FNUZToFloat(FromBytes<uint8_t>(at)));
    case DType::kInt64:
      return static_cast<double>(FromBytes<int64_t>(at));
    case DType::kInt32:
      return FromBytes<int32_t>(at);
    case DType::kInt16:
      return FromBytes<int16_t>(at);
    case DType::kInt8:
      return FromBytes<int8_t>(at);
    case DType::kUInt64:
      return static_cast<double>(FromBytes<uint64_t>(at));
    case DType::kUInt32:
      return FromBytes<uint32_t>(at);
    case DType::kUInt16:
      return FromBytes<uint16_t>(at);
    case DType::kUInt8:
      return FromBytes<uint8_t>(at);
    case DType::kBool:
      return FromBytes<uint8_t>(at) != 0 ? 1.0 : 0.0;
    case DType::kComplex64:
      return {FromBytes<float>(at), FromBytes<float>(at + 4)};
    case DType::kComplex128:
      return {FromBytes<double>(at), FromBytes<double>(at + 8)};
  }
  return {};
}

// Real floating elements only: `value` rounded to the dtype. 8-bit floats take a bit pattern made
// of it.
inline void PutFloat(DType dtype, double value, std::byte* at) {
  switch (dtype) {
    case DType::kFloat64:
      return ToBytes(value, at);
    case DType::kFloat32:
      return ToBytes(static_cast<float>(value), at);
    case DType::kFloat16:
      return ToBytes(tensor::FloatToFloat16(static_cast<float>(value)), at);
    case DType::kBFloat16:
      return ToBytes(tensor::FloatToBFloat16(static_cast<float>(value)), at);
    default:
      break;
  }
}

// `count` elements at `offset` bytes into the returned vector.
inline std::vector<std::byte> MakeElements(DType dtype, size_t count, size_t offset, Mix mix,
                                           uint32_t seed) {
  std::mt19937_64 random(seed);
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double specials[] = {std::nan(""), kInf, -kInf, 0.0,  -0.0,  1e-40, -3e-41, 3e-8,
                             5e-324,       6e4,  -6e4,  1e38, 1e300, 1.0,   -1.0,   6e-5};
  // Near a normal distribution of deviation 3, from exact arithmetic alone: the same values on
  // every machine.
  const auto uniform = [&] { return static_cast<double>(static_cast<int32_t>(random())); };
  const auto draw = [&] {
    const double ordinary = (uniform() + uniform() + uniform()) * (0x1p-31 * 3);
    return mix == Mix::kSpecial && random() % 4 == 0 ? specials[random() % std::size(specials)]
                                                     : ordinary;
  };
  const size_t size = DTypeSize(dtype);
  std::vector<std::byte> bytes(offset + count * size);
  const DTypeKind kind = GetDTypeInfo(dtype).kind;
  for (size_t i = 0; i < count; ++i) {
    std::byte* at = bytes.data() + offset + i * size;
    if (dtype == DType::kComplex64) {
      PutFloat(DType::kFloat32, draw(), at);
      PutFloat(DType::kFloat32, draw(), at + 4);
    } else if (dtype == DType::kComplex128) {
      PutFloat(DType::kFloat64, draw(), at);
      PutFloat(DType::kFloat64, draw(), at + 8);
    } else if (kind == DTypeKind::kFloat && size > 1) {
      PutFloat(dtype, draw(), at);
    } else {
      // Integers, bool and 8-bit floats: any bits are a value. Ordinary 8-bit floats avoid NaN and
      // infinity.
      uint64_t bits = random();
      if (kind == DTypeKind::kFloat && mix == Mix::kOrdinary) {
        bits &= 0xBFU;
        bits = bits == 0x80U ? 0U : bits;
      }
      if (kind != DTypeKind::kFloat && random() % 4 == 0) {
        bits = mix == Mix::kSpecial ? (random() % 2 == 0 ? 0 : ~uint64_t{0} >> (random() % 2))
                                    : bits % 3;
      }
      std::memcpy(at, &bits, size);
    }
  }
  return bytes;
}

// Runs every test with each implementation this machine has.
class EveryTable : public testing::TestWithParam<const internal::KernelTable*> {
 protected:
  void SetUp() override { internal::ForceTableForTesting(GetParam()); }
  void TearDown() override { internal::ForceTableForTesting(nullptr); }
};

inline std::string TableName(const testing::TestParamInfo<const internal::KernelTable*>& info) {
  return std::string(info.param->name);
}

#define MSPROBE_FOR_EVERY_TABLE(suite)                                              \
  INSTANTIATE_TEST_SUITE_P(                                                         \
      Implementations, suite,                                                       \
      testing::ValuesIn(std::vector<const internal::KernelTable*>(                  \
          internal::AvailableTables().begin(), internal::AvailableTables().end())), \
      TableName)

// Equal, both NaN, or closer than `relative` of the larger scale given.
inline testing::AssertionResult Near(double actual, double expected, double scale,
                                     double relative = 1e-12) {
  if (actual == expected || (std::isnan(actual) && std::isnan(expected)) ||
      std::fabs(actual - expected) <= relative * scale) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "got " << actual << ", expected " << expected;
}

template <class T>
std::span<const std::byte> BytesOf(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

}  // namespace msprobe::kernels

namespace msprobe::kernels::internal {
inline void PrintTo(const KernelTable* table, std::ostream* out) { *out << table->name; }
}  // namespace msprobe::kernels::internal
