#include "src/base/numbers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "src/base/strings.h"

namespace msprobe::base {

void AppendPythonFloatRepr(double value, std::string& out) {
  if (std::isnan(value)) {
    out += "nan";
    return;
  }
  if (std::isinf(value)) {
    out += value > 0 ? "inf" : "-inf";
    return;
  }
  // Python writes positional notation for decimal exponents in [-4, 16), scientific beyond; the
  // digits are the shortest.
  std::array<char, 40> text;
  // Most are of a size at which to_chars writes the same.
  if (const double size = std::fabs(value); (size >= 1e-4 && size < 1e15) || size == 0) {
    const auto end =
        std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
    out.append(text.data(), static_cast<size_t>(end.ptr - text.data()));
    if (std::find(text.data(), end.ptr, '.') == end.ptr) out += ".0";
    return;
  }
  const auto scientific =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::scientific);
  const std::string_view digits(text.data(), static_cast<size_t>(scientific.ptr - text.data()));
  const size_t e = digits.find('e');
  int exponent = 0;
  const std::string_view exponent_text = digits.substr(e + 1);
  const size_t skip_plus = exponent_text.starts_with('+') ? 1 : 0;
  std::from_chars(exponent_text.data() + skip_plus, exponent_text.data() + exponent_text.size(),
                  exponent);
  if (exponent < -4 || exponent >= 16) {
    out += digits;  // to_chars writes at least two exponent digits, as Python does
    return;
  }
  // Fixed notation of the same shortest digits (at most 17); to_chars(fixed) would print all digits
  // of large integers.
  std::array<char, 24> mantissa;
  size_t count = 0;
  for (char c : digits.substr(0, e)) {
    if (c >= '0' && c <= '9') {
      mantissa[count++] = c;
    }
  }
  std::array<char, 48> fixed;
  char* end = fixed.data();
  if (digits.starts_with('-')) {
    *end++ = '-';
  }
  if (exponent < 0) {
    *end++ = '0';
    *end++ = '.';
    end = std::fill_n(end, -exponent - 1, '0');
    end = std::copy_n(mantissa.data(), count, end);
  } else {
    const size_t whole = static_cast<size_t>(exponent) + 1;
    const size_t written = std::min(count, whole);
    end = std::copy_n(mantissa.data(), written, end);
    end = std::fill_n(end, whole - written, '0');
    *end++ = '.';
    if (count > whole) {
      end = std::copy_n(mantissa.data() + whole, count - whole, end);
    } else {
      *end++ = '0';
    }
  }
  out.append(fixed.data(), static_cast<size_t>(end - fixed.data()));
}

std::string PythonFloatRepr(double value) {
  std::string text;
  AppendPythonFloatRepr(value, text);
  return text;
}

void AppendGeneral(double value, int digits, std::string& out) {
  std::array<char, 64> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value,
                                 std::chars_format::general, digits);
  out.append(text.data(), static_cast<size_t>(end.ptr - text.data()));
}

std::optional<double> ParseDouble(std::string_view text) {
  text = Trim(text);
  bool negative = false;
  if (text.starts_with('+') || text.starts_with('-')) {
    negative = text.front() == '-';
    text.remove_prefix(1);
  }
  // from_chars takes a second sign, "nan(...)" forms; Python does not.
  if (text.empty() || text.front() == '-' || text.find('(') != std::string_view::npos) {
    return std::nullopt;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size()) {
    return std::nullopt;
  }
  if (error == std::errc::result_out_of_range) {
    value = std::strtod(std::string(text).c_str(), nullptr);  // 0 or infinity, as Python gives
  } else if (error != std::errc()) {
    return std::nullopt;
  }
  return negative ? -value : value;
}

std::optional<int64_t> ParseInt(std::string_view text) {
  text = Trim(text);
  if (text.starts_with('+') && !text.starts_with("+-")) {
    text.remove_prefix(1);
  }
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
    return std::nullopt;
  }
  return value;
}

void AppendPythonTextRepr(std::string_view text, std::string& out) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  constexpr std::string_view kHex = "0123456789abcdef";
  out += quote;
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == quote || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      out += "\\x";
      out += kHex[byte >> 4U];
      out += kHex[byte & 0xFU];
    } else {
      out += c;
    }
  }
  out += quote;
}

namespace {

__extension__ using Wide = unsigned __int128;

}  // namespace

void AppendFixed(double value, int decimals, std::string& out) {
  // Numbers that fit into 128 bits are multiplied and rounded exactly, without going through
  // digits.
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
