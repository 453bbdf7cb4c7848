// Factors between the units of times: profiles count in nanoseconds, tables show micro- and
// milliseconds.
#pragma once

namespace msprobe::analysis::perf {

inline constexpr double kNsPerUs = 1e3;
inline constexpr double kNsPerMs = 1e6;
inline constexpr double kUsPerMs = 1e3;
inline constexpr double kUsPerS = 1e6;
inline constexpr double kMsPerS = 1e3;

}  // namespace msprobe::analysis::perf
