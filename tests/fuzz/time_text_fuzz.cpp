// Times in decimal digits beside the same sum in 128 bits.
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "src/profile/common/values.h"
#include "tests/fuzz/input_folder.h"

namespace {

__extension__ using Wide = __int128;

// Digits with at most one point and nothing else.
std::optional<Wide> Plain(std::string_view text) {
  constexpr size_t kMostDigits = 30;
  Wide value = 0;
  size_t digits = 0;
  size_t behind = 0;
  bool point = false;
  bool round_up = false;
  for (const char c : text) {
    if (c == '.' && !point) {
      point = true;
      continue;
    }
    if (c < '0' || c > '9' || ++digits > kMostDigits) {
      return std::nullopt;
    }
    behind += point ? 1 : 0;
    if (behind <= 3) {
      value = value * 10 + (c - '0');
    } else if (behind == 4) {
      round_up = c >= '5';
    }
  }
  if (digits == 0) {
    return std::nullopt;
  }
  for (; behind < 3; ++behind) {
    value *= 10;
  }
  return value + (round_up ? 1 : 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace profile = msprobe::profile;
  const std::string_view text = msprobe::fuzz::TextOf(data, size);
  const std::optional<profile::Nanoseconds> time = profile::ParseMicroseconds(text);
  if (const std::optional<Wide> plain = Plain(text)) {
    const bool fits = *plain <= INT64_MAX;
    if (time.has_value() != fits || (fits && *time != static_cast<int64_t>(*plain))) {
      std::abort();
    }
  }
  if (time.has_value()) {
    static_cast<void>(profile::SumOfTimes(*time, *time));
    static_cast<void>(profile::NanosecondsOf(static_cast<double>(*time)));
  }
  return 0;
}
