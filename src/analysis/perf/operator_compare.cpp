#include "src/analysis/perf/operator_compare.h"

#include <array>

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

}  // namespace

double DeviceMs(const OperatorSide& side, uint32_t node, std::vector<uint32_t>& queue) {
  double total = 0;
  side.VisitKernels(node, queue,
                    [&](const profile::Kernel& kernel) { total += kernel.duration_us / 1000; });
  return total;
}

report::FormattedTable OperatorDetails(const OperatorSide& base, const OperatorSide& comparison,
                                       std::span<const AlignedPair> pairs,
                                       const PairOptions& options) {
  const DetailSheet sheet = {"OperatorCompare", "Kernel Details", "Device Duration(us)",
                             "Diff Duration(us)", MeasureKernels};
  return FillDetails(sheet, base, comparison, pairs, options);
}

report::FormattedTable OperatorStatistic(const OperatorSide& base, const OperatorSide& comparison,
                                         std::span<const AlignedPair> pairs,
                                         const PairOptions& options) {
  std::vector<uint32_t> queue;
  const auto sum_ms = [&queue](const OperatorSide& side, std::span<const uint32_t> nodes) {
    double total = 0;
    for (const uint32_t node : nodes) {
      total += DeviceMs(side, node, queue);
    }
    return total;
  };
  report::FormattedTable result =
      MakeSheet("OperatorCompareStatistic", kStatisticColumns, {2, 3}, {4, 5}, options);
  int64_t top = 0;
  for (const auto& row :
       RankGroups(base, comparison, pairs, sum_ms, [](double ms) { return ms; })) {
    const std::array<Cell, kStatisticColumns.size()> cells = {
        Cell::Integer(++top),
        result.table.KeepText(row.name),
        Cell::Number(row.base),
        Cell::Integer(row.base_count),
        Cell::Number(row.comparison),
        Cell::Integer(row.comparison_count),
        Cell::Number(row.difference.difference),
        Cell::Number(row.difference.ratio)};
    result.table.AddRow(cells);
  }
  return result;
}

}  // namespace msprobe::analysis::perf
