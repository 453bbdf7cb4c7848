// Values rounded by lot in the last place: what computations with results that were rounded already
// would see if the rounding had gone otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "msprobe/dtype.h"

namespace msprobe::perturb {

// A result x of a computation stands for a real number that is one unit in the last place away at
// most (faithful rounding). Taken as x + u with u uniform in (-1, 1) units and rounded
// stochastically, that is to either neighbour with a probability by how near it is, it becomes the
// number above x with probability E[max(u, 0)] = 1/4, the number below with 1/4, and stays x with
// 1/2. Its variance is half a squared unit. Stochastic rounding: M. Croci, M. Fasi, N. J. Higham,
// T. Mary, M. Mikaitis, "Stochastic rounding: implementation, error analysis and applications",
// Royal Society Open Science 9 (2022), section 2; values perturbed in their last place: D. S.
// Parker, "Monte Carlo Arithmetic", UCLA CSD-970002 (1997).
//
// In place. `first`: the index of the first element in its tensor: with the seed it decides the
// lots, which are the same on every machine and for any division into blocks. Zeros, subnormal
// numbers, NaN, infinities and what would become one stay as they are. False: none is left that may
// change.
bool RoundStochastically(DType dtype, std::span<std::byte> elements, uint64_t seed, uint64_t first);

}  // namespace msprobe::perturb
