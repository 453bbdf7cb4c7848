#include "src/analysis/perf/api_compare.h"

#include <array>

#include <fmt/format.h>

#include "src/analysis/perf/difference.h"
#include "src/analysis/perf/sheet.h"

namespace msprobe::analysis::perf {
namespace {

using report::Cell;
using enum report::NumberFormat;

constexpr std::array<SheetColumn, 14> kApiColumns = {{{"Order Id", 10, kInteger},
                                                      {"api name", 30, kGeneral, true},
                                                      {"Total Duration(ms)", 20, kFixed2},
                                                      {"Self Time(ms)", 20, kFixed2},
                                                      {"Avg Duration(ms)", 20, kFixed2},
                                                      {"Calls", 20, kInteger},
                                                      {"Total Duration(ms)", 20, kFixed2},
                                                      {"Self Time(ms)", 20, kFixed2},
                                                      {"Avg Duration(ms)", 20, kFixed2},
                                                      {"Calls", 20, kInteger},
                                                      {"Diff Total Ratio", 20, kFixed2},
                                                      {"Diff Self Ratio", 20, kFixed2},
                                                      {"Diff Avg Ratio", 20, kFixed2},
                                                      {"Diff Calls Ratio", 20, kFixed2}}};

// Host time of a call that is not its callees', in us; as in the Python tool, which nests without
// regard to threads, negative where callees outlive it.
double HostSelfUs(const OperatorSide& side, uint32_t node) {
  double callees_us = 0;
  for (const uint32_t child : side.tree().children(node)) {
    callees_us += side.operation(child).duration_us;
  }
  return side.operation(node).duration_us - callees_us;
}

struct Calls {
  double total_ms = 0;
  double self_ms = 0;
  double average_ms = 0;
  int64_t count = 0;
};

Calls MeasureCalls(const OperatorSide& side, std::span<const uint32_t> nodes) {
  Calls calls;
  double total_us = 0;
  double self_us = 0;
  for (const uint32_t node : nodes) {
    total_us += side.operation(node).duration_us;
    self_us += HostSelfUs(side, node);
  }
  calls.count = static_cast<int64_t>(nodes.size());
  calls.total_ms = RoundToDigits(total_us / 1000, 2);
  calls.self_ms = RoundToDigits(self_us / 1000, 2);
  if (calls.count > 0) {
    calls.average_ms = RoundToDigits(calls.total_ms / static_cast<double>(calls.count), 2);
  }
  return calls;
}

void WarnOfStep(const OperatorSide& side, const std::optional<std::string>& step,
                std::vector<std::string>& warnings) {
  if (step.has_value() && side.all().empty() && !side.tree().nodes().empty()) {
    warnings.push_back(fmt::format("{}: no operators in step {}, so host calls are not compared",
                                   side.profile().path.string(), *step));
  }
}

}  // namespace

report::FormattedTable ApiCompare(const OperatorSide& base, const OperatorSide& comparison,
                                  const PairOptions& options, std::vector<std::string>& warnings) {
  report::FormattedTable result = MakeSheet("ApiCompare", kApiColumns, {2, 5}, {6, 9}, options);
  WarnOfStep(base, options.base_step, warnings);
  WarnOfStep(comparison, options.comparison_step, warnings);
  if (base.all().empty() || comparison.all().empty()) {
    return result;
  }
  int64_t order = 0;
  for (const OperatorGroup& group : GroupByName(base, base.all(), comparison, comparison.all())) {
    const Calls left = MeasureCalls(base, group.base);
    const Calls right = MeasureCalls(comparison, group.comparison);
    const auto ratio = [](double a, double b) { return Cell::Number(Differ(a, b).ratio); };
    const std::array<Cell, kApiColumns.size()> cells = {
        Cell::Integer(++order),
        result.table.KeepText(group.name),
        Cell::Number(left.total_ms),
        Cell::Number(left.self_ms),
        Cell::Number(left.average_ms),
        Cell::Integer(left.count),
        Cell::Number(right.total_ms),
        Cell::Number(right.self_ms),
        Cell::Number(right.average_ms),
        Cell::Integer(right.count),
        ratio(left.total_ms, right.total_ms),
        ratio(left.self_ms, right.self_ms),
        ratio(left.average_ms, right.average_ms),
        ratio(static_cast<double>(left.count), static_cast<double>(right.count))};
    result.table.AddRow(cells);
  }
  return result;
}

}  // namespace msprobe::analysis::perf
