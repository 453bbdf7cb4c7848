// Conditions under which a comparison fails in CI: "e2e>5%", "op:*matmul*>10%", "memory>1GB".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/perf/options.h"
#include "src/analysis/perf/pair_comparison.h"

namespace msprobe::analysis::perf {

// A usage error names what is wrong with the text.
Result<Gate> ParseGate(std::string_view text);

// What a gate found. A value that a side does not tell fails: silence must not pass for health.
struct GateOutcome {
  std::string gate;
  bool failed = false;
  std::string explanation;  // "e2e 151.2 -> 163.5 ms: +8.1 %, allowed 5 %"
};

// `comparison` must hold overall times for the metrics they give, and in `watched` each pattern.
GateOutcome Judge(const Gate& gate, const PairComparison& comparison);

}  // namespace msprobe::analysis::perf
