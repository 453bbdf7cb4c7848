// Packed elements against loops over single bits: every code of every type, any number of elements.
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/io/kernel_dump/format.h"
#include "src/kernels/convert.h"

namespace msprobe::io::kernel_dump {
namespace {

// What a code of so many bits stands for, bit by bit.
double PlainInteger(unsigned code, int /*width*/) { return code; }
double TwosComplement(unsigned code, int width) {
  double value = 0;
  for (int bit = 0; bit < width; ++bit) {
    const double weight = std::pow(2.0, bit);
    value += (code >> static_cast<unsigned>(bit) & 1U) == 0 ? 0
             : bit == width - 1                             ? -weight
                                                            : weight;
  }
  return value;
}
double FloatOf(unsigned code, int exponent_bits, int mantissa_bits, int bias) {
  unsigned exponent = 0;
  double fraction = 0;
  for (int bit = 0; bit < mantissa_bits; ++bit) {
    fraction +=
        (code >> static_cast<unsigned>(bit) & 1U) != 0 ? std::pow(2.0, bit - mantissa_bits) : 0;
  }
  for (int bit = 0; bit < exponent_bits; ++bit) {
    exponent += (code >> static_cast<unsigned>(mantissa_bits + bit) & 1U)
                << static_cast<unsigned>(bit);
  }
  const bool negative = (code >> static_cast<unsigned>(mantissa_bits + exponent_bits) & 1U) != 0;
  const double magnitude =
      exponent == 0 ? fraction * std::pow(2.0, 1 - bias)
                    : (1 + fraction) * std::pow(2.0, exponent - static_cast<double>(bias));
  return negative ? -magnitude : magnitude;
}

struct PackedType {
  const char* name;
  int width;
  double (*value)(unsigned code, int width);
  bool highest_first = false;
};
const std::vector<PackedType> kPackedTypes = {
    {"INT4", 4, TwosComplement},
    {"UINT1", 1, PlainInteger, true},
    {"INT2", 2, TwosComplement},
    {"UINT2", 2, PlainInteger},
    {"FLOAT6_E3M2", 6, [](unsigned code, int) { return FloatOf(code, 3, 2, 3); }},
    {"FLOAT6_E2M3", 6, [](unsigned code, int) { return FloatOf(code, 2, 3, 1); }},
    {"FLOAT4_E2M1", 4, [](unsigned code, int) { return FloatOf(code, 2, 1, 1); }},
    {"FLOAT4_E1M2", 4, [](unsigned code, int) { return FloatOf(code, 1, 2, 1); }},
};

const DataType& TypeCalled(std::string_view name) {
  for (uint32_t number = 0; FindDataType(number) != nullptr; ++number) {
    if (DataTypeName(number) == name) {
      return *FindDataType(number);
    }
  }
  ADD_FAILURE() << "no type " << name;
  return *FindDataType(1);
}

std::vector<std::byte> Pack(const std::vector<unsigned>& codes, const PackedType& type) {
  std::vector<std::byte> packed((codes.size() * static_cast<size_t>(type.width) + 7) / 8);
  for (size_t i = 0; i < codes.size(); ++i) {
    for (int bit = 0; bit < type.width; ++bit) {
      if ((codes[i] >> static_cast<unsigned>(bit) & 1U) != 0) {
        const size_t at = i * static_cast<size_t>(type.width) + static_cast<size_t>(bit);
        packed[at / 8] |= static_cast<std::byte>(1U << (type.highest_first ? 7 - at % 8 : at % 8));
      }
    }
  }
  return packed;
}

std::vector<double> Values(const DataType& type, const std::vector<std::byte>& packed,
                           size_t elements) {
  const std::vector<std::byte> bytes = Unpack(type, packed, elements);
  EXPECT_EQ(bytes.size(), elements * DTypeSize(type.becomes));
  std::vector<double> values(elements);
  kernels::WidenToDouble(type.becomes, bytes, values);
  return values;
}

TEST(KernelDumpPacking, EveryLengthOfEveryTypeAgreesWithALoopOverBits) {
  std::mt19937 random(22);
  for (const PackedType& type : kPackedTypes) {
    const DataType& described = TypeCalled(type.name);
    for (size_t elements = 0; elements <= 257; ++elements) {
      std::vector<unsigned> codes(elements);
      for (unsigned& code : codes) {
        code = static_cast<unsigned>(random()) & ((1U << static_cast<unsigned>(type.width)) - 1);
      }
      std::vector<std::byte> packed = Pack(codes, type);
      uint64_t bytes = 0;
      ASSERT_TRUE(PackedBytes(described, elements, &bytes));
      ASSERT_LE(packed.size(), bytes) << type.name;  // whole groups of elements
      packed.resize(bytes);
      const std::vector<double> values = Values(described, packed, elements);
      for (size_t i = 0; i < elements; ++i) {
        ASSERT_EQ(values[i], type.value(codes[i], type.width))
            << type.name << " " << codes[i] << " at " << i << " of " << elements;
      }
    }
  }
}

TEST(KernelDumpPacking, EveryCodeOfBytesAgreesWithItsDefinition) {
  std::vector<std::byte> codes;
  for (unsigned code = 0; code < 256; ++code) {
    codes.push_back(static_cast<std::byte>(code));
  }
  const std::vector<double> scales = Values(TypeCalled("FLOAT8_E8M0"), codes, 256);
  for (int code = 0; code < 255; ++code) {
    EXPECT_EQ(scales[static_cast<size_t>(code)], std::pow(2.0, code - 127));
  }
  EXPECT_TRUE(std::isnan(scales[255]));
  // HiFloat8: the dot field tells the width of the exponent, of which the first bit is its sign and
  // the leading one behind it is not written.
  const std::vector<double> values = Values(TypeCalled("HIFLOAT8"), codes, 256);
  for (unsigned code = 0; code < 128; ++code) {
    std::string bits;
    for (int bit = 6; bit >= 0; --bit) {
      bits += (code >> static_cast<unsigned>(bit) & 1U) != 0 ? '1' : '0';
    }
    const auto number = [](const std::string& digits) {
      return digits.empty() ? 0.0 : static_cast<double>(std::stoul(digits, nullptr, 2));
    };
    size_t dot = 2;
    size_t width = bits.starts_with("11") ? 4 : bits.starts_with("10") ? 3 : 2;
    if (bits.starts_with("001")) {
      dot = 3;
      width = 1;
    } else if (bits.starts_with("0001")) {
      dot = 4;
      width = 0;
    }
    double expected = 0;
    if (bits.starts_with("0000")) {
      expected = code == 0 ? 0 : std::pow(2.0, number(bits.substr(4)) - 23);
    } else if (code == 0x6F) {
      expected = INFINITY;
    } else {
      double exponent = 0;
      if (width > 0) {
        const std::string field = bits.substr(dot, width);
        exponent = number("1" + field.substr(1)) * (field[0] == '1' ? -1 : 1);
      }
      const std::string mantissa = bits.substr(dot + width);
      expected = std::pow(2.0, exponent) *
                 (1 + number(mantissa) / std::pow(2.0, static_cast<double>(mantissa.size())));
    }
    EXPECT_EQ(values[code], expected) << bits;
    if (code != 0) {
      EXPECT_EQ(values[code + 128], -expected) << bits;
    }
  }
  EXPECT_TRUE(std::isnan(values[128]));
}

TEST(KernelDumpPacking, HalvesOfComplexNumbersKeepTheirBits) {
  const DataType& type = TypeCalled("COMPLEX32");
  std::vector<std::byte> packed(4 * 65536);
  for (size_t i = 0; i < 65536; ++i) {
    const auto real = static_cast<uint16_t>(i);
    const auto imaginary = static_cast<uint16_t>(65535 - i);
    std::memcpy(packed.data() + 4 * i, &real, 2);
    std::memcpy(packed.data() + 4 * i + 2, &imaginary, 2);
  }
  const std::vector<std::byte> bytes = Unpack(type, packed, 65536);
  ASSERT_EQ(bytes.size(), 65536U * 8);
  std::vector<double> halves(2 * 65536);
  kernels::WidenToDouble(DType::kFloat16, packed, halves);
  for (size_t i = 0; i < halves.size(); ++i) {
    float value = 0;
    std::memcpy(&value, bytes.data() + 4 * i, 4);
    EXPECT_TRUE(static_cast<double>(value) == halves[i] ||
                (std::isnan(value) && std::isnan(halves[i])))
        << i;
  }
}

}  // namespace
}  // namespace msprobe::io::kernel_dump
