#include "src/perturb/preheat.h"

#include <algorithm>

namespace msprobe::perturb {

int64_t SamplesPerStep(int64_t calls, int64_t preheat_step, int64_t max_sample) {
  if (calls < 1 || preheat_step < 1) return 0;
  return std::min((calls - 1) / preheat_step + 1, max_sample);
}

bool IsSampled(int64_t number, int64_t calls, int64_t preheat_step, int64_t max_sample,
               int64_t step) {
  const int64_t samples = SamplesPerStep(calls, preheat_step, max_sample);
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t remainder = (preheat_step * i + step) % calls;
    if ((remainder == 0 ? calls : remainder) == number) return true;
  }
  return false;
}

void Adapt(PreheatThreshold& threshold, std::span<const double> consistent,
           std::span<const double> inconsistent, double least) {
  if (!threshold.adapts || (consistent.empty() && inconsistent.empty())) return;
  double next = threshold.value;
  if (consistent.empty()) {
    next = std::min(*std::ranges::min_element(inconsistent), next);
    threshold.adapts = false;
  } else if (inconsistent.empty()) {
    const double above = next - 1;
    next = *std::ranges::max_element(consistent) > next ? 1 + above * 2 : 1 + above / 2;
  } else {
    const double bad = *std::ranges::min_element(inconsistent);
    if (bad > *std::ranges::max_element(consistent)) {
      next = std::min(bad, next);
      threshold.adapts = false;
    }
  }
  threshold.value = std::max(next, least);
}

}  // namespace msprobe::perturb
