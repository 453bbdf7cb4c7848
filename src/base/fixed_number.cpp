#include "src/base/fixed_number.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace msprobe::base {
namespace {

__extension__ using Wide = unsigned __int128;

}  // namespace

void AppendFixed(double value, int decimals, std::string& out) {
  // What fits into 128 bits is multiplied and rounded exactly, without going through digits.
  constexpr std::array<uint64_t, 7> kPowers = {1, 10, 100, 1000, 10000, 100000, 1000000};
  constexpr double kLeast = 1e-3;
  constexpr double kMost = 1e9;
  const double size = std::fabs(value);
  if (!(size >= kLeast && size < kMost) || static_cast<size_t>(decimals) >= kPowers.size()) {
    constexpr size_t kLongest = 340;  // 309 digits of the largest double, 20 behind the point
    std::array<char, kLongest> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value,
                                   std::chars_format::fixed, decimals);
    out.append(text.data(), static_cast<size_t>(end.ptr - text.data()));
    return;
  }
  int exponent = 0;
  // 2^53 of the fraction, times a power of ten below 2^20.
  const auto mantissa = static_cast<uint64_t>(std::ldexp(std::frexp(size, &exponent), 53));
  const uint64_t power = kPowers[static_cast<size_t>(decimals)];
  const Wide scaled = static_cast<Wide>(mantissa) * power;
  const int shift = 53 - exponent;  // 23 to 62
  auto units = static_cast<uint64_t>(scaled >> shift);
  const auto rest = static_cast<uint64_t>(scaled & ((static_cast<Wide>(1) << shift) - 1));
  const uint64_t half = uint64_t{1} << (shift - 1);
  units += rest > half || (rest == half && units % 2 == 1) ? 1 : 0;
  std::array<char, 24> text;
  char* begin = text.data();
  if (value < 0) {
    *begin++ = '-';
  }
  char* end = std::to_chars(begin, text.data() + text.size(), units / power).ptr;
  if (decimals > 0) {
    *end = '.';
    uint64_t behind = units % power;
    for (char* digit = end + decimals; digit > end; --digit) {
      *digit = static_cast<char>('0' + behind % 10);
      behind /= 10;
    }
    end += decimals + 1;
  }
  out.append(text.data(), static_cast<size_t>(end - text.data()));
}

}  // namespace msprobe::base
