// Device time of the operators that a pattern names.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/analysis/perf/operator_tree.h"
#include "src/analysis/perf/perf.h"

namespace msprobe::analysis::perf {

// One per pattern, in order. With a step: of its operators only.
std::vector<Watched> WatchOperators(const OperatorSide& base, const OperatorSide& comparison,
                                    std::span<const std::string> patterns);

}  // namespace msprobe::analysis::perf
