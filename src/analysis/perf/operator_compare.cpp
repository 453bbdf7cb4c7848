#include "src/analysis/perf/operator_compare.h"

#include <algorithm>
#include <array>

#include "src/analysis/perf/difference.h"
#include "src/analysis/perf/operator_details.h"
#include "src/analysis/perf/sheet.h"

namespace msprobe::analysis::perf {
namespace {

using report::Cell;
using enum report::NumberFormat;

constexpr std::array<SheetColumn, 8> kStatisticColumns = {
    {{"Top", 10, kInteger},
     {"Operator Name", 30, kGeneral, true},
     {"Base Device Duration(ms)", 25, kFixed2},
     {"Base Operator Number", 25, kInteger},
     {"Comparison Device Duration(ms)", 30, kFixed2},
     {"Comparison Operator Number", 30, kInteger},
     {"Diff Duration(ms)", 20, kFixed2},
     {"Diff Ratio", 20, kPercent}}};

double MeasureKernels(const OperatorSide& side, uint32_t node, std::vector<uint32_t>& queue,
                      DetailText& details) {
  double total_us = 0;
  side.VisitKernels(node, queue, [&](const profile::Kernel& kernel) {
    total_us += kernel.duration_us;
    details.Add([&](std::string& out) { AppendKernelText(side.profile(), kernel, out); });
  });
  return total_us;
}

double SumMs(const OperatorSide& side, std::span<const uint32_t> nodes,
             std::vector<uint32_t>& queue) {
  double total = 0;
  for (const uint32_t node : nodes) {
    total += DeviceMs(side, node, queue);
  }
  return total;
}

}  // namespace

double DeviceMs(const OperatorSide& side, uint32_t node, std::vector<uint32_t>& queue) {
  double total = 0;
  side.VisitKernels(node, queue,
                    [&](const profile::Kernel& kernel) { total += kernel.duration_us / 1000; });
  return total;
}

report::FormattedTable OperatorDetails(const OperatorSide& base, const OperatorSide& comparison,
                                       std::span<const AlignedPair> pairs, const Options& options) {
  const DetailSheet sheet = {"OperatorCompare", "Kernel Details", "Device Duration(us)",
                             "Diff Duration(us)", MeasureKernels};
  return FillDetails(sheet, base, comparison, pairs, options);
}

report::FormattedTable OperatorStatistic(const OperatorSide& base, const OperatorSide& comparison,
                                         std::span<const AlignedPair> pairs,
                                         const Options& options) {
  struct Row {
    std::string_view name;
    double base_ms = 0;
    double comparison_ms = 0;
    size_t base_count = 0;
    size_t comparison_count = 0;
    Difference difference;
  };
  std::vector<Row> rows;
  std::vector<uint32_t> queue;
  for (const OperatorGroup& group : GroupByName(base, comparison, pairs)) {
    Row row;
    row.name = group.name;
    row.base_ms = SumMs(base, group.base, queue);
    row.comparison_ms = SumMs(comparison, group.comparison, queue);
    row.base_count = group.base.size();
    row.comparison_count = group.comparison.size();
    row.difference = Differ(row.base_ms, row.comparison_ms);
    rows.push_back(row);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return a.difference.difference > b.difference.difference;
  });
  report::FormattedTable result =
      MakeSheet("OperatorCompareStatistic", kStatisticColumns, {2, 3}, {4, 5}, options);
  int64_t top = 0;
  for (const Row& row : rows) {
    const std::array<Cell, kStatisticColumns.size()> cells = {
        Cell::Integer(++top),
        result.table.KeepText(row.name),
        Cell::Number(row.base_ms),
        Cell::Integer(static_cast<int64_t>(row.base_count)),
        Cell::Number(row.comparison_ms),
        Cell::Integer(static_cast<int64_t>(row.comparison_count)),
        Cell::Number(row.difference.difference),
        Cell::Number(row.difference.ratio)};
    result.table.AddRow(cells);
  }
  return result;
}

}  // namespace msprobe::analysis::perf
