// Makes a captured call small while what is wrong with it stays.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/analysis/repro/captured_call.h"

namespace msprobe::analysis::repro {

// Tensors that all attempts together look at: a call may have as many as a dump has files, and a
// call of a model has a few.
inline constexpr uint64_t kMostVisits = 500'000;

// How far it got.
struct Minimised {
  uint64_t elements_before = 0;  // of all tensors
  uint64_t elements_after = 0;
  uint64_t attempts = 0;           // calls that were recomputed
  std::vector<std::string> steps;  // what was taken away, in order: "output.0 dim 1: 8 to 1"
  std::vector<std::string> kept;   // what could not be: "output.0 dim 2 stays 16"
  bool ran_out = false;            // of attempts: more may be possible
};

// Delta debugging (A. Zeller, R. Hildebrandt, Simplifying and isolating failure-inducing input,
// IEEE TSE 28, 2002) over results that are not looked at, arguments, dims, slices of them, and
// values.
//
// A reduction is taken if the wrong element is still the worst one, is still beyond its bound with
// the same captured and the same exact value, and no element has become wrong beside it. What is
// left is therefore wrong for the same reason: the device has not to compute anything again.
// `verdict` is that of `call`, which must be beyond its bound in an element.
Minimised Minimise(CapturedCall& call, const recheck::CallVerdict& verdict, uint64_t attempts,
                   base::ThreadPool& pool, uint64_t most_visits = kMostVisits);

// Why a call cannot be minimised; empty: it can.
std::string ReasonAgainst(const recheck::CallVerdict& verdict);

}  // namespace msprobe::analysis::repro
