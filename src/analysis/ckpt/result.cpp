#include "src/analysis/ckpt/result.h"

#include <algorithm>

namespace msprobe::analysis::ckpt {

std::string_view OutcomeName(Outcome outcome) {
  constexpr std::string_view kNames[kOutcomeCount] = {"identical", "equal",         "close",
                                                      "different", "shapes differ", "unreadable"};
  return kNames[static_cast<size_t>(outcome)];
}

size_t Comparison::CountOf(Outcome outcome) const {
  return static_cast<size_t>(std::count_if(
      pairs.begin(), pairs.end(), [&](const PairResult& pair) { return pair.outcome == outcome; }));
}

bool Comparison::nothing_compared() const {
  return std::none_of(pairs.begin(), pairs.end(), [](const PairResult& pair) {
    return pair.computed() && pair.sums.finite.element_count > 0;
  });
}

}  // namespace msprobe::analysis::ckpt
