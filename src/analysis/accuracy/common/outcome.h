// How a check of an output or of an operator ended, as results spell it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace msprobe::analysis::accuracy {

enum class Outcome : uint8_t { kPass, kWarning, kError, kSkip };

// 26.x writes "warning".
inline constexpr std::string_view OutcomeText(Outcome outcome, bool small_warning = false) {
  constexpr std::array<std::string_view, 4> kTexts = {"pass", "Warning", "error", "SKIP"};
  return outcome == Outcome::kWarning && small_warning ? "warning"
                                                       : kTexts[static_cast<size_t>(outcome)];
}

// The first line of a message that says something.
std::string FirstLine(std::string_view text);

struct OutcomeCounts;
// "113: 60 pass, 51 error, 2 SKIP"
std::string CountsText(const OutcomeCounts& counts);

// How many operators or outputs ended how.
struct OutcomeCounts {
  std::array<uint64_t, 4> counts = {};

  void Add(Outcome outcome) { ++counts[static_cast<size_t>(outcome)]; }
  void Add(const OutcomeCounts& other) {
    for (size_t i = 0; i < counts.size(); ++i) {
      counts[i] += other.counts[i];
    }
  }
  uint64_t Of(Outcome outcome) const { return counts[static_cast<size_t>(outcome)]; }
  uint64_t total() const { return counts[0] + counts[1] + counts[2] + counts[3]; }
  uint64_t judged() const { return total() - Of(Outcome::kSkip); }
};

}  // namespace msprobe::analysis::accuracy
