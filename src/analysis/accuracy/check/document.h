// Documents of checks of a dump's operators.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/accuracy/check/check.h"
#include "src/analysis/accuracy/common/outcome.h"
#include "src/report/document.h"

namespace msprobe::analysis::accuracy {

// Operators with errors, by their size; then those with warnings. `outcome`: a member of Checked.
template <typename Checked, typename Member>
std::vector<const Checked*> WorstOf(const std::vector<Checked>& all, Member outcome, size_t most) {
  std::vector<const Checked*> worst;
  for (const Checked& checked : all) {
    const Outcome found = std::invoke(outcome, checked);
    if (found == Outcome::kError || found == Outcome::kWarning) {
      worst.push_back(&checked);
    }
  }
  const auto size = [](const Checked* checked) {
    return std::isnan(checked->max_abs) ? HUGE_VAL : checked->max_abs;
  };
  std::stable_sort(worst.begin(), worst.end(), [&](const Checked* a, const Checked* b) {
    const bool a_error = std::invoke(outcome, *a) == Outcome::kError;
    const bool b_error = std::invoke(outcome, *b) == Outcome::kError;
    return a_error != b_error ? a_error : size(a) > size(b);
  });
  worst.resize(std::min(worst.size(), most));
  return worst;
}

// A failed case of the JUnit file, at the level of kCheckGateLevels.
void MarkFailed(Outcome outcome, std::string_view skipped, std::string_view differs,
                report::TestCase& test);

// "a worker had to be started again ...".
std::string RestartWarning(uint64_t restarts);

inline constexpr std::array<report::GateLevel, 3> kCheckGateLevels = {
    {{"error", "an operator whose outputs or gradients differ from the CPU's"},
     {"warning", "also one that differs a little"},
     {"skip", "also one that could not be run or judged"}}};
inline constexpr std::array<report::GateLevel, 3> kOverflowGateLevels = {
    {{"abnormal", "an operator that overflows on one side only"},
     {"any", "also one that overflows on both", true, true},
     {"skip", "also one that could not be run", true, true}}};

// `command`: under which name the check was asked for.
report::Document MakeDocument(const Check& check, std::string_view command);
report::Document MakeDocument(const OverflowCheck& check);

}  // namespace msprobe::analysis::accuracy
