// What the sheets OperatorCompare and MemoryCompare share: a row per pair of operators.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "src/analysis/perf/alignment.h"
#include "src/analysis/perf/detail_text.h"
#include "src/analysis/perf/operator_tree.h"
#include "src/analysis/perf/options.h"
#include "src/report/formatted_xlsx.h"

namespace msprobe::analysis::perf {

struct DetailSheet {
  std::string_view name;
  std::string_view details_column;
  std::string_view amount_column;
  std::string_view difference_column;
  // What one operator and everything below it amounts to, and the lines that say so.
  std::function<double(const OperatorSide& side, uint32_t node, std::vector<uint32_t>& queue,
                       DetailText& details)>
      measure;
};

report::FormattedTable FillDetails(const DetailSheet& sheet, const OperatorSide& base,
                                   const OperatorSide& comparison,
                                   std::span<const AlignedPair> pairs, const PairOptions& options);

}  // namespace msprobe::analysis::perf
