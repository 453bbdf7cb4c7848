#include "src/analysis/perf/module_compare.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "src/analysis/perf/detail_text.h"
#include "src/analysis/perf/difference.h"
#include "src/analysis/perf/sheet.h"

namespace msprobe::analysis::perf {
namespace {

using report::Cell;
using enum report::NumberFormat;

constexpr size_t kModuleColumnCount = 17;
constexpr std::array<SheetColumn, kModuleColumnCount> kModuleColumns = {
    {{"Order Id", 10, kInteger},
     {"Module Class", 20, kInteger},
     {"Module Level", 15, kInteger},
     {"Module Name", 35, kInteger},
     {"Operator Name", 25, kInteger},
     {"Kernel Details", 20, kInteger},
     {"Device Self Time(us)", 20, kFixed2},
     {"Device Total Time(us)", 20, kFixed2},
     {"Operator Name", 25, kInteger},
     {"Kernel Details", 20, kInteger},
     {"Device Self Time(us)", 20, kFixed2},
     {"Device Total Time(us)", 20, kFixed2},
     {"Device Total Time Diff(us)", 20, kFixed2},
     {"Device Self Time Diff(us)", 20, kFixed2},
     {"Diff Total Ratio", 15, kPercent},
     {"Base Call Stack", 30, kInteger},
     {"Comparison Call Stack", 30, kInteger}}};

using Cells = std::array<Cell, kModuleColumnCount>;

// One side of the sheet.
class SideCells {
 public:
  SideCells(const ModuleSide& side, size_t first_column, size_t stack_column, report::Table& table,
            KeptTexts& kept, const PairOptions& options)
      : side_(side),
        first_(first_column),
        stack_(stack_column),
        table_(table),
        kept_(kept),
        texts_(side.profile().texts, table),
        details_(options.whole_texts) {}

  bool has_call_stacks() const { return has_call_stacks_; }

  void FillModule(uint32_t module, Cells& cells, double& self_us, double& total_us) {
    cells[first_] = Cell::Text("TOTAL");
    if (module != kUnmatched) {
      self_us = side_[module].self_us;
      total_us = side_[module].total_us;
      cells[stack_] = kept_(side_.CallStack(module));
    }
    cells[first_ + 2] = Cell::Number(self_us);
    cells[first_ + 3] = Cell::Number(total_us);
  }

  void FillOperator(const ModuleOperator* module_operator, Cells& cells, double& self_us) {
    if (module_operator != nullptr) {
      const profile::Operator& operation = side_.profile().operators[module_operator->operation];
      details_.Clear();
      for (const uint32_t index : side_.kernels(*module_operator)) {
        const profile::Kernel& kernel = side_.profile().kernels[index];
        self_us += kernel.duration_us;
        details_.Add([&](std::string& out) { AppendKernelText(side_.profile(), kernel, out); });
      }
      cells[first_] = texts_(operation.name);
      cells[first_ + 1] = table_.KeepText(details_.text());
      has_call_stacks_ = has_call_stacks_ || operation.call_stack != profile::kNoText;
    }
    cells[first_ + 2] = Cell::Number(self_us);
  }
  void FillCallStack(const ModuleOperator* module_operator, Cells& cells) {
    if (module_operator != nullptr) {
      const profile::TextId stack =
          side_.profile().operators[module_operator->operation].call_stack;
      cells[stack_] = stack == profile::kNoText ? Cell::Text("N/A") : texts_(stack);
    }
  }

 private:
  const ModuleSide& side_;
  size_t first_;
  size_t stack_;
  report::Table& table_;
  KeptTexts& kept_;
  TextCells texts_;
  DetailText details_;
  bool has_call_stacks_ = false;
};

// Operators of a pair of modules by name; places in the modules' own lists.
class OperatorPairs {
 public:
  OperatorPairs(const ModuleSide& base, const ModuleSide& comparison, const PairOptions& options)
      : base_(base), comparison_(comparison), options_(options) {
    const profile::Texts& texts = comparison.profile().texts;
    numbers_.assign(texts.size(), kUnmatched);
  }

  std::vector<AlignedPair> Of(const AlignedPair& modules) {
    std::vector<uint32_t> base_keys;
    if (modules.base != kUnmatched) {
      for (const ModuleOperator& operation : base_.operators(modules.base)) {
        base_keys.push_back(base_.profile().operators[operation.operation].name);
      }
    }
    std::vector<uint32_t> comparison_keys;
    if (modules.comparison != kUnmatched) {
      for (const ModuleOperator& operation : comparison_.operators(modules.comparison)) {
        comparison_keys.push_back(
            Number(comparison_.profile().operators[operation.operation].name));
      }
    }
    return Align(base_keys, comparison_keys, options_.alignment).pairs;
  }

 private:
  uint32_t Number(profile::TextId name) {
    uint32_t& number = numbers_[name];
    if (number == kUnmatched) {
      const profile::Texts& texts = base_.profile().texts;
      const profile::TextId same = texts.Find(comparison_.profile().texts[name]);
      number = same != profile::kNoText || name == profile::kNoText
                   ? same
                   : static_cast<uint32_t>(texts.size()) + name;
    }
    return number;
  }

  const ModuleSide& base_;
  const ModuleSide& comparison_;
  const PairOptions& options_;
  std::vector<uint32_t>
      numbers_;  // of the comparison's names, as the base has them; once asked for
};

const ModuleOperator* OperatorAt(const ModuleSide& side, uint32_t module, uint32_t place) {
  return place == kUnmatched ? nullptr : &side.operators(module)[place];
}

}  // namespace

report::FormattedTable ModuleDetails(const ModuleSide& base, const ModuleSide& comparison,
                                     std::span<const AlignedPair> pairs, const PairOptions& options,
                                     std::vector<std::string>& warnings) {
  report::FormattedTable sheet =
      MakeSheet("ModuleCompare", kModuleColumns, {4, 7}, {8, 11}, options);
  KeptTexts kept(sheet.table);
  SideCells base_cells(base, 4, 15, sheet.table, kept, options);
  SideCells comparison_cells(comparison, 8, 16, sheet.table, kept, options);
  OperatorPairs operator_pairs(base, comparison, options);
  int64_t order = 0;
  for (const AlignedPair& pair : pairs) {
    const bool in_base = pair.base != kUnmatched;
    const std::string_view path = in_base ? base.path(pair.base) : comparison.path(pair.comparison);
    Cells cells;
    cells[1] = kept(ModuleClass(path));
    cells[2] = Cell::Integer(in_base ? base[pair.base].level : comparison[pair.comparison].level);
    cells[3] = kept(ModuleName(path));
    const Cells shared = cells;

    double base_self = 0;
    double base_total = 0;
    double comparison_self = 0;
    double comparison_total = 0;
    base_cells.FillModule(pair.base, cells, base_self, base_total);
    comparison_cells.FillModule(pair.comparison, cells, comparison_self, comparison_total);
    const Difference total = Differ(base_total, comparison_total);
    cells[0] = Cell::Integer(++order);
    cells[12] = Cell::Number(total.difference);
    cells[13] = Cell::Number(Differ(base_self, comparison_self).difference);
    cells[14] = Cell::Number(total.ratio);
    sheet.table.AddRow(cells);

    for (const AlignedPair& places : operator_pairs.Of(pair)) {
      const ModuleOperator* left = OperatorAt(base, pair.base, places.base);
      const ModuleOperator* right = OperatorAt(comparison, pair.comparison, places.comparison);
      cells = shared;
      cells[0] = Cell::Integer(++order);
      base_self = 0;
      comparison_self = 0;
      base_cells.FillOperator(left, cells, base_self);
      comparison_cells.FillOperator(right, cells, comparison_self);
      const Difference self = Differ(base_self, comparison_self);
      cells[13] = Cell::Number(self.difference);
      cells[14] = Cell::Number(self.ratio);
      if (self.difference > 0) {
        base_cells.FillCallStack(left, cells);
        comparison_cells.FillCallStack(right, cells);
      }
      sheet.table.AddRow(cells);
    }
  }
  for (const ModuleSide* side : {&base, &comparison}) {
    if (side->cut()) {
      warnings.push_back(fmt::format("{}: python calls nested deeper than {} were left out",
                                     side->profile().path.string(), NestedIntervals::kMaxDepth));
    }
  }
  for (const ModuleSide* side : {&base, &comparison}) {
    if (side->cuts_paths()) {
      warnings.push_back(
          fmt::format("{}: paths of modules longer than {} bytes, or beyond {} MiB of all, are cut",
                      side->profile().path.string(), ModuleSide::kLongestPath,
                      ModuleSide::kMostPathBytes >> 20U));
    }
  }
  // Frames that are no modules are stacks as well: the column of a module shows them.
  const std::vector<profile::PythonCall>& frames = comparison.profile().python_calls;
  const bool has_frames =
      std::any_of(frames.begin(), frames.end(), [](const auto& call) { return !call.is_module; });
  if (!pairs.empty() && !comparison_cells.has_call_stacks() && !has_frames) {
    warnings.push_back(comparison.profile().path.string() +
                       ": no call stacks of operators; profile with with_stack=True to get them");
  }
  return sheet;
}

}  // namespace msprobe::analysis::perf
