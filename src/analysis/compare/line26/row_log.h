// Two log lines per row of a comparison of tensors: -tensor_log.
#pragma once

#include <string>
#include <vector>

#include "src/analysis/compare/compare_pair.h"

namespace msprobe::analysis::compare {

// Nothing for statistics and checksums.
void AppendRowLog(const ComparedPair& pair, std::vector<std::string>& lines);

}  // namespace msprobe::analysis::compare
