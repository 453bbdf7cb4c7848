#include "src/report/page_columns.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace msprobe::report {
namespace {

constexpr uint32_t kTextCode = 0x7fd00000;
constexpr uint32_t kMostTexts = 0x00100000;
constexpr uint32_t kSign = 0x80000000;
constexpr int kFractionBits = 23;

// Floats as integers that rise with them.
constexpr uint32_t InOrder(uint32_t bits) { return (bits & kSign) != 0 ? ~bits : bits | kSign; }

}  // namespace

void AppendPlanes(std::span<const uint32_t> values, std::string& out) {
  uint32_t all = 0;
  for (const uint32_t value : values) {
    all |= value;
  }
  const auto planes = static_cast<size_t>((std::bit_width(all) + 7) / 8);
  out += static_cast<char>(planes);
  out.reserve(out.size() + planes * values.size());
  for (size_t plane = 0; plane < planes; ++plane) {
    for (const uint32_t value : values) {
      out += static_cast<char>(value >> (8 * plane));
    }
  }
}

uint32_t TextList::Add(std::string_view text) {
  if (const auto found = number_of_.find(text); found != number_of_.end()) {
    return found->second;
  }
  const auto number = static_cast<uint32_t>(texts_.size());
  texts_.emplace_back(text);
  number_of_.emplace(text, number);
  return number;
}

uint32_t CellCodes::Number(double value, int kept_bits) {
  if (std::isnan(value)) {
    return std::bit_cast<uint32_t>(std::numeric_limits<float>::quiet_NaN());
  }
  const double size = std::abs(value);
  if (std::isfinite(value) && size != 0 &&
      (size > std::numeric_limits<float>::max() || size < std::numeric_limits<float>::min())) {
    return Text(fmt::format("{:.7g}", value));
  }
  auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  if (kept_bits < kFractionBits && std::isfinite(value)) {
    const uint32_t step = uint32_t{1} << static_cast<uint32_t>(kFractionBits - kept_bits);
    // Rounded to the nearest; may carry into the exponent, which is right, but not into infinity.
    const uint32_t rounded = (bits + step / 2) & ~(step - 1);
    bits = std::isfinite(std::bit_cast<float>(rounded)) ? rounded : bits & ~(step - 1);
  }
  return bits;
}

uint32_t CellCodes::Text(std::string_view text) {
  const uint32_t number =
      texts_.texts().size() < kMostTexts - 1 ? texts_.Add(text) : texts_.Add("too many texts");
  return kTextCode | number;
}

uint32_t DifferenceOfCodes(uint32_t code, uint32_t base) {
  const uint32_t difference = InOrder(code) - InOrder(base);
  return difference << 1U ^ ((difference & kSign) != 0 ? ~uint32_t{0} : 0);
}

}  // namespace msprobe::report
