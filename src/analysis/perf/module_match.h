// Which module of the comparison stands beside which of the base.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/perf/alignment.h"
#include "src/analysis/perf/module_side.h"
#include "src/analysis/perf/options.h"

namespace msprobe::analysis::perf {

// Both sides recorded modules, and they were asked for. Otherwise operators are to be compared.
bool CanCompareModules(const ModuleSide& base, const ModuleSide& comparison,
                       const PairOptions& options);

// Pairs of modules whose paths are equal, level by level from pairs around them, and the rest
// alone; by start of the base's, modules of the comparison alone in between by theirs.
std::vector<AlignedPair> MatchModules(const ModuleSide& base, const ModuleSide& comparison,
                                      const PairOptions& options);

// Of "/nn.Module: Net_0/nn.Module: Linear_3": "nn.Module: Linear" and "/ Net_0/ Linear_3".
std::string_view ModuleClass(std::string_view path);
std::string ModuleName(std::string_view path);

}  // namespace msprobe::analysis::perf
