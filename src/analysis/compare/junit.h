// A run as a JUnit report: CI systems show it without knowing what it is.
#pragma once

#include <string>

#include "src/analysis/compare/summary.h"

namespace msprobe::analysis {

// One test case per pair; a pair fails when rows differ beyond noise and errs when it could not be
// compared.
std::string JunitXml(const RunSummary& summary);

}  // namespace msprobe::analysis
