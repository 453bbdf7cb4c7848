#include <algorithm>
#include <array>
#include <iterator>
#include <unordered_map>

#include <fmt/format.h>

#include "src/analysis/perf/detail_text.h"
#include "src/analysis/perf/difference.h"
#include "src/analysis/perf/module_compare.h"
#include "src/analysis/perf/sheet.h"

namespace msprobe::analysis::perf {
namespace {

using report::Cell;
using enum report::NumberFormat;

constexpr size_t kModuleStatisticColumnCount = 18;
constexpr std::array<SheetColumn, kModuleStatisticColumnCount> kModuleStatisticColumns = {
    {{"Order Id", 10, kInteger},
     {"Module Class", 20, kInteger},
     {"Module Level", 15, kInteger},
     {"Module Name", 35, kInteger},
     {"Operator Name", 25, kInteger},
     {"Kernel Details", 20, kInteger},
     {"Device Self Time(ms)", 20, kFixed2},
     {"Number", 10, kInteger},
     {"Device Total Time(ms)", 20, kFixed2},
     {"Kernel Details", 20, kInteger},
     {"Device Self Time(ms)", 20, kFixed2},
     {"Number", 10, kInteger},
     {"Device Total Time(ms)", 20, kFixed2},
     {"Device Total Time Diff(ms)", 20, kFixed2},
     {"Device Self Time Diff(ms)", 20, kFixed2},
     {"Diff Total Ratio", 15, kPercent},
     {"Base Call Stack", 30, kInteger},
     {"Comparison Call Stack", 30, kInteger}}};

using StatisticCells = std::array<Cell, kModuleStatisticColumnCount>;

// Modules of both sides with one path.
struct ModuleGroup {
  std::string_view path;
  std::array<std::vector<uint32_t>, 2> modules;
};

std::vector<ModuleGroup> GroupByPath(const ModuleSide& base, const ModuleSide& comparison,
                                     std::span<const AlignedPair> pairs) {
  std::vector<ModuleGroup> groups;
  std::unordered_map<std::string_view, size_t> index;
  const auto add = [&](size_t side, std::string_view path, uint32_t module) {
    const auto [place, is_new] = index.emplace(path, groups.size());
    if (is_new) {
      groups.push_back({path, {}});
    }
    groups[place->second].modules[side].push_back(module);
  };
  for (const AlignedPair& pair : pairs) {
    if (pair.base != kUnmatched) {
      add(0, base.path(pair.base), pair.base);
    }
  }
  for (const AlignedPair& pair : pairs) {
    if (pair.comparison != kUnmatched) {
      add(1, comparison.path(pair.comparison), pair.comparison);
    }
  }
  return groups;
}

struct KernelSum {
  double ms = 0;
  int64_t count = 0;
};

// Operators of one name in the modules of a group, on one side.
struct OperatorSum {
  double ms = 0;
  int64_t count = 0;
  std::vector<std::pair<std::string_view, KernelSum>> kernels;  // by first appearance
  std::unordered_map<std::string_view, size_t> index;

  void AddKernel(std::string_view name, double kernel_ms) {
    const auto [place, is_new] = index.emplace(name, kernels.size());
    if (is_new) {
      kernels.push_back({name, {}});
    }
    KernelSum& sum = kernels[place->second].second;
    sum.ms += kernel_ms;
    ++sum.count;
    ms += kernel_ms;
  }
};

struct OperatorRow {
  std::string_view name;
  std::array<OperatorSum, 2> sides;
};

std::vector<OperatorRow> SumOperators(const std::array<const ModuleSide*, 2>& sides,
                                      const ModuleGroup& group) {
  std::vector<OperatorRow> rows;
  std::unordered_map<std::string_view, size_t> index;
  for (size_t i = 0; i < sides.size(); ++i) {
    const ModuleSide& side = *sides[i];
    const profile::Profile& profile = side.profile();
    for (const uint32_t module : group.modules[i]) {
      for (const ModuleOperator& operation : side.operators(module)) {
        const auto [place, is_new] = index.emplace(side.name(operation), rows.size());
        if (is_new) {
          rows.push_back({side.name(operation), {}});
        }
        OperatorSum& sum = rows[place->second].sides[i];
        ++sum.count;
        for (const uint32_t kernel : side.kernels(operation)) {
          sum.AddKernel(profile.texts[profile.kernels[kernel].name],
                        profile.kernels[kernel].duration_us / 1000);
        }
      }
    }
  }
  return rows;
}

void AddTotalRow(const std::array<const ModuleSide*, 2>& sides, const ModuleGroup& group,
                 StatisticCells cells, report::Table& table, KeptTexts& kept) {
  std::array<double, 2> self{};
  std::array<double, 2> total{};
  for (size_t i = 0; i < sides.size(); ++i) {
    const ModuleSide& side = *sides[i];
    for (const uint32_t module : group.modules[i]) {
      self[i] += side[module].self_us / 1000;
      total[i] += side[module].total_us / 1000;
    }
    const size_t first = 5 + 4 * i;
    cells[first + 1] = Cell::Number(self[i]);
    cells[first + 2] = Cell::Integer(static_cast<int64_t>(group.modules[i].size()));
    cells[first + 3] = Cell::Number(total[i]);
    if (!group.modules[i].empty()) {
      cells[16 + i] = kept(side.CallStack(group.modules[i].front()));
    }
  }
  const Difference difference = Differ(total[0], total[1]);
  cells[4] = Cell::Text("[ TOTAL ]");
  cells[13] = Cell::Number(difference.difference);
  cells[14] = Cell::Number(Differ(self[0], self[1]).difference);
  cells[15] = Cell::Number(difference.ratio);
  table.AddRow(cells);
}

void AddOperatorRow(const OperatorRow& row, StatisticCells cells, report::Table& table,
                    DetailText& details) {
  cells[4] = table.KeepText(row.name);
  for (size_t i = 0; i < row.sides.size(); ++i) {
    const OperatorSum& sum = row.sides[i];
    const size_t first = 5 + 4 * i;
    details.Clear();
    for (const auto& [name, kernel] : sum.kernels) {
      details.Add([&, &kernel_name = name, &kernel_sum = kernel](std::string& out) {
        fmt::format_to(std::back_inserter(out), "{}, [number: {}], [duration_ms: {:.3f}]\n",
                       kernel_name, kernel_sum.count, kernel_sum.ms);
      });
    }
    cells[first] = table.KeepText(details.text());
    cells[first + 1] = Cell::Number(sum.ms);
    cells[first + 2] = Cell::Integer(sum.count);
  }
  const Difference difference = Differ(row.sides[0].ms, row.sides[1].ms);
  cells[14] = Cell::Number(difference.difference);
  cells[15] = Cell::Number(difference.ratio);
  table.AddRow(cells);
}

}  // namespace

report::FormattedTable ModuleStatistic(const ModuleSide& base, const ModuleSide& comparison,
                                       std::span<const AlignedPair> pairs,
                                       const PairOptions& options) {
  report::FormattedTable sheet =
      MakeSheet("ModuleCompareStatistic", kModuleStatisticColumns, {5, 8}, {9, 12}, options);
  const std::array<const ModuleSide*, 2> sides = {&base, &comparison};
  KeptTexts kept(sheet.table);
  DetailText details(options.whole_texts);
  int64_t order = 0;
  for (const ModuleGroup& group : GroupByPath(base, comparison, pairs)) {
    StatisticCells cells;
    cells[1] = kept(ModuleClass(group.path));
    cells[2] = Cell::Integer(std::count(group.path.begin(), group.path.end(), '/'));
    cells[3] = sheet.table.KeepText(ModuleName(group.path));
    cells[0] = Cell::Integer(++order);
    AddTotalRow(sides, group, cells, sheet.table, kept);
    for (const OperatorRow& row : SumOperators(sides, group)) {
      cells[0] = Cell::Integer(++order);
      AddOperatorRow(row, cells, sheet.table, details);
    }
  }
  return sheet;
}

}  // namespace msprobe::analysis::perf
