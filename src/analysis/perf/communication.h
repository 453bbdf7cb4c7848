// Collectives side by side: by the names that profilers give them, as the sheet shows it, and by
// what they do, which is the same whether NCCL or HCCL did it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/perf/options.h"
#include "src/analysis/perf/pair_comparison.h"
#include "src/profile/profile.h"
#include "src/report/formatted_xlsx.h"

namespace msprobe::analysis::perf {

// The sheet CommunicationCompare; empty where neither side communicates. With steps: what began
// inside of them.
report::FormattedTable CommunicationSheet(const profile::Profile& base,
                                          const profile::Profile& comparison,
                                          const PairOptions& options);

// "all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send", "recv",
// "reduce", "gather", "scatter", "barrier"; empty for names that say none of these.
std::string_view CollectiveKind(std::string_view name);

// Totals by kind, largest difference first; where the options ask for it, by the names of the
// sheet. Names of no kind stand under their own.
std::vector<Collective> CompareCollectives(const profile::Profile& base,
                                           const profile::Profile& comparison,
                                           const PairOptions& options);

}  // namespace msprobe::analysis::perf
