// Device time of the operators that a pattern names.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/analysis/perf/device_work.h"
#include "src/analysis/perf/operator_tree.h"
#include "src/analysis/perf/pair_comparison.h"

namespace msprobe::analysis::perf {

// A side of a GPU by its device work, where kernels of graphs and of driver calls have their
// operator; of an NPU (`work` is null) by its operators, to which collectives are linked, too.
struct WatchedSide {
  const OperatorSide* operators = nullptr;
  const DeviceWork* work = nullptr;
  std::optional<std::string> step;  // of its operators only
};

// One per pattern, in order.
std::vector<Watched> WatchOperators(const WatchedSide& base, const WatchedSide& comparison,
                                    std::span<const std::string> patterns);

}  // namespace msprobe::analysis::perf
