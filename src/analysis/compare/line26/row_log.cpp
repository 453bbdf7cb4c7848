#include "src/analysis/compare/line26/row_log.h"

#include <fmt/format.h>

#include "src/analysis/compare/line26/judge.h"
#include "src/analysis/compare/line26/value_text.h"
#include "src/analysis/compare/result_table.h"
#include "src/base/strings.h"

namespace msprobe::analysis::compare {

void AppendRowLog(const ComparedPair& pair, std::vector<std::string>& lines) {
  if (pair.result.mode != CompareMode::kRealData) {
    return;
  }
  const std::vector<std::string> columns = MetricColumns(CompareMode::kRealData);
  report::Table texts;
  for (const RowResult& row : pair.result.rows) {
    const SideRow& npu = pair.npu.rows[row.pair.npu];
    lines.push_back(fmt::format("{} with {}", npu.name,
                                row.pair.bench == kNoRow ? std::string_view("nothing")
                                                         : pair.bench.rows[row.pair.bench].name));
    std::string metrics;
    for (size_t i = 0; i < columns.size(); ++i) {
      const std::string value = report::CellText(MetricCell26(row.metrics[i], texts));
      metrics += fmt::format("{} {}, ", columns[i], base::Trim(value));
    }
    lines.push_back(fmt::format("  {}Result {}", metrics, ResultWord(row.verdict)));
  }
}

}  // namespace msprobe::analysis::compare
