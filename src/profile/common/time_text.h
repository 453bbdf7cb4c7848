// Times as profiles write them: microseconds in decimal digits, more of them than a double holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace msprobe::profile {

using Nanoseconds = int64_t;

// "1700000000001000.123" as 1700000000001000123. Blanks around it, a sign and an exponent are
// allowed; digits below a nanosecond are rounded. nullopt: not a number, or beyond what 64 bits
// hold (292 years).
std::optional<Nanoseconds> ParseMicroseconds(std::string_view text);

}  // namespace msprobe::profile
