// The README.md of a reproduction: what the call is, what is wrong with it, and how to see it.
#pragma once

#include <string>

#include "src/analysis/repro/result.h"

namespace msprobe::analysis::repro {

std::string MakeReadme(const Answer& answer);

// "is off by 1.37e+04 times its error bound: output.0 [3, 2] is ..., exactly ...".
std::string VerdictSentence(const recheck::CallVerdict& verdict);

}  // namespace msprobe::analysis::repro
