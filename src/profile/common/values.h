// Arithmetic with times that files give, which may be anything.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/hash_index.h"
#include "src/base/strings.h"

namespace msprobe::profile {

// Names that occur over and over, kept once each: events of a profile refer to them by number.

using TextId = uint32_t;
inline constexpr TextId kNoText = 0;  // the empty text

// "<built-in method mul_ of Tensor object at 0x7f6f01>": without the address, which is another one
// in every run.
std::string WithoutAddresses(std::string_view name);

class Texts {
 public:
  Texts() : texts_(1) {}

  // Equal texts get equal numbers, counted up from 1 in order of first appearance.
  TextId Intern(std::string_view text);
  // kNoText when it never occurred.
  TextId Find(std::string_view text) const;
  // Stays valid as long as this object.
  std::string_view operator[](TextId id) const { return texts_[id]; }
  // Numbers are below this.
  size_t size() const { return texts_.size(); }

 private:
  base::TextArena arena_;
  std::vector<std::string_view> texts_;
  base::HashIndex index_;  // of texts_
};

// Times as profiles write them: microseconds in decimal digits, more of them than a double holds.

using Nanoseconds = int64_t;

// "1700000000001000.123" as 1700000000001000123. Blanks around it, a sign and an exponent are
// allowed; digits below a nanosecond are rounded. nullopt: not a number, or beyond what 64 bits
// hold (292 years).
std::optional<Nanoseconds> ParseMicroseconds(std::string_view text);

// The largest or the smallest number where 64 bits do not hold the sum: calls that overlap can
// last longer together than any clock runs.
inline Nanoseconds SumOfTimes(Nanoseconds a, Nanoseconds b) {
  Nanoseconds sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    return b > 0 ? std::numeric_limits<Nanoseconds>::max()
                 : std::numeric_limits<Nanoseconds>::min();
  }
  return sum;
}

// The nearest time; the largest or the smallest one beyond 64 bits, 0 for NaN.
inline Nanoseconds NanosecondsOf(double microseconds) {
  const double rounded = std::round(microseconds * 1000);
  if (std::isnan(rounded)) {
    return 0;
  }
  if (rounded >= 0x1p63) {
    return std::numeric_limits<Nanoseconds>::max();
  }
  return rounded <= -0x1p63 ? std::numeric_limits<Nanoseconds>::min()
                            : static_cast<Nanoseconds>(rounded);
}

}  // namespace msprobe::profile
