#include "src/analysis/perf/memory_compare.h"

#include <array>

#include "src/analysis/perf/operator_details.h"
#include "src/analysis/perf/operator_groups.h"
#include "src/analysis/perf/sheet.h"

namespace msprobe::analysis::perf {
namespace {

using report::Cell;
using enum report::NumberFormat;

constexpr std::array<SheetColumn, 10> kMemoryStatisticColumns = {
    {{"Top", 10, kInteger},
     {"Operator Name", 30, kGeneral, true},
     {"Base Allocated Duration(ms)", 25, kFixed2},
     {"Base Allocated Memory(MB)", 30, kFixed2},
     {"Base Operator Number", 25, kInteger},
     {"Comparison Allocated Duration(ms)", 27, kFixed2},
     {"Comparison Allocated Memory(MB)", 33, kFixed2},
     {"Comparison Operator Number", 25, kInteger},
     {"Diff Memory(MB)", 20, kFixed2},
     {"Diff Ratio", 20, kPercent}}};

double MeasureMemory(const OperatorSide& side, uint32_t node, std::vector<uint32_t>& queue,
                     DetailText& details) {
  double total_kb = 0;
  side.VisitAllocations(
      node, queue, [&](const profile::Allocation& allocation, profile::TextId name) {
        total_kb += allocation.size_kb;
        details.Add([&](std::string& out) {
          AppendAllocationText(side.profile(), allocation, side.profile().texts[name], out);
        });
      });
  return total_kb;
}

}  // namespace

Allocated AllocatedBy(const OperatorSide& side, uint32_t node, std::vector<uint32_t>& queue) {
  Allocated total;
  side.VisitAllocations(node, queue, [&](const profile::Allocation& allocation, profile::TextId) {
    total.mb += allocation.size_kb / 1024;
    total.ms += allocation.duration_us / 1000;
  });
  return total;
}

report::FormattedTable MemoryDetails(const OperatorSide& base, const OperatorSide& comparison,
                                     std::span<const AlignedPair> pairs,
                                     const PairOptions& options) {
  const DetailSheet sheet = {"MemoryCompare", "Allocated Details", "Size(KB)", "Diff Size(KB)",
                             MeasureMemory};
  return FillDetails(sheet, base, comparison, pairs, options);
}

report::FormattedTable MemoryStatistic(const OperatorSide& base, const OperatorSide& comparison,
                                       std::span<const AlignedPair> pairs,
                                       const PairOptions& options) {
  std::vector<uint32_t> queue;
  const auto sum_up = [&queue](const OperatorSide& side, std::span<const uint32_t> nodes) {
    Allocated total;
    for (const uint32_t node : nodes) {
      const Allocated allocated = AllocatedBy(side, node, queue);
      total.mb += allocated.mb;
      total.ms += allocated.ms;
    }
    return total;
  };
  report::FormattedTable result =
      MakeSheet("MemoryCompareStatistic", kMemoryStatisticColumns, {2, 4}, {5, 7}, options);
  int64_t top = 0;
  for (const auto& row :
       RankGroups(base, comparison, pairs, sum_up, [](const Allocated& sum) { return sum.mb; })) {
    const std::array<Cell, kMemoryStatisticColumns.size()> cells = {
        Cell::Integer(++top),
        result.table.KeepText(row.name),
        Cell::Number(row.base.ms),
        Cell::Number(row.base.mb),
        Cell::Integer(row.base_count),
        Cell::Number(row.comparison.ms),
        Cell::Number(row.comparison.mb),
        Cell::Integer(row.comparison_count),
        Cell::Number(row.difference.difference),
        Cell::Number(row.difference.ratio)};
    result.table.AddRow(cells);
  }
  return result;
}

}  // namespace msprobe::analysis::perf
