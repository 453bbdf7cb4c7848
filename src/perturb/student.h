// Student's t distribution: how far a mean of few samples may be from the truth.
#pragma once

#include <cstdint>

namespace msprobe::perturb {

// The t beyond which neither tail of `degrees` degrees of freedom holds more than
// (1 - confidence) / 2: 12.706 for 0.95 and 1, 4.303 for 2, 1.960 in the limit. From the finite
// sums of M. Abramowitz, I. A. Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4, by
// bisection. `confidence` between 0 and 1, both excluded; `degrees` from 1 on.
double StudentQuantile(double confidence, uint32_t degrees);

}  // namespace msprobe::perturb
