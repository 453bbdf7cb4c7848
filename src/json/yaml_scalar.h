// Inside of the room: what an unquoted YAML word means.
#pragma once

#include <string_view>

#include "src/json/config.h"

namespace msprobe::json::internal {

// By the rules of YAML 1.1 that Python programs use (null, yes/no/on/off/true/false, integers in
// base 2, 8, 10 and 16, floats, .inf, .nan), without base 60. Everything else is text. Integers
// beyond int64 become floats.
ConfigValue ResolvePlainScalar(std::string_view text);

// The same as PyYAML does it: with base 60, an exponent wants its sign, and dates are typed text.
ConfigValue ResolvePlainData(std::string_view text);

}  // namespace msprobe::json::internal
