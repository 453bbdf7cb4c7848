// A run as a JUnit report: CI systems show it without knowing what it is.
#pragma once

#include <string>

#include "src/analysis/compare/summary.h"

namespace msprobe::analysis {

// One test case per pair; a pair fails when rows differ beyond noise and errs when it could not be
// compared.
// `drift_fails`: whether differences that rounding explains fail a case, as the gate "drift" has
// it.
std::string JunitXml(const RunSummary& summary, bool drift_fails = false);

}  // namespace msprobe::analysis
