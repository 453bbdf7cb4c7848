// Inside of the room: the times in the names of folders, which have no year.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace msprobe::monitor {

// "Nov21_09-58-35" as seconds of a year whose months have 31 days: for order, not for duration.
std::optional<int64_t> StampSecond(std::string_view stamp);
constexpr int64_t kStampYearSeconds = int64_t{12} * 31 * 24 * 3600;

}  // namespace msprobe::monitor
