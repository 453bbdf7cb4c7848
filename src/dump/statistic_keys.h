// The four statistics that dump.json holds of a tensor: the one list that writes, reads and
// compares them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace msprobe::dump {

// In the order of the files and of all tables made from them.
enum Statistic : uint8_t { kMax, kMin, kMean, kNorm };
inline constexpr size_t kStatisticCount = 4;
inline constexpr std::array<std::string_view, kStatisticCount> kStatisticKeys = {"Max", "Min",
                                                                                 "Mean", "Norm"};
constexpr std::string_view KeyOf(Statistic statistic) { return kStatisticKeys[statistic]; }

}  // namespace msprobe::dump
