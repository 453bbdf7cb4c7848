#include "src/analysis/perf/operator_compare.h"

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/perf/alignment.h"
#include "src/analysis/perf/operator_tree.h"
#include "src/analysis/perf/options.h"
#include "src/analysis/perf/sheet.h"
#include "src/base/strings.h"
#include "src/report/xlsx_writer.h"

namespace msprobe::analysis::perf {
namespace {

// What the sheets OperatorCompare and MemoryCompare share: a row per pair of operators.

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

}  // namespace

using profile::kNoText;

using profile::TextId;

std::vector<OperatorGroup> GroupByName(const OperatorSide& base,
                                       std::span<const uint32_t> base_nodes,
                                       const OperatorSide& comparison,
                                       std::span<const uint32_t> comparison_nodes) {
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<OperatorGroup> groups;
  const profile::Texts& base_texts = base.profile().texts;
  const profile::Texts& comparison_texts = comparison.profile().texts;
  std::vector<uint32_t> of_base(base_texts.size(), kNone);  // group of each name
  std::vector<uint32_t> of_comparison(comparison_texts.size(), kNone);
  for (const uint32_t node : base_nodes) {
    const TextId name = base.operation(node).name;
    if (of_base[name] == kNone) {
      of_base[name] = static_cast<uint32_t>(groups.size());
      groups.push_back({base_texts[name], {}, {}});
    }
    groups[of_base[name]].base.push_back(node);
  }
  for (const uint32_t node : comparison_nodes) {
    const TextId name = comparison.operation(node).name;
    uint32_t& group = of_comparison[name];
    if (group == kNone) {
      const std::string_view text = comparison_texts[name];
      const TextId known = base_texts.Find(text);
      if (known != kNoText || text.empty()) {
        group = of_base[known];
      }
      if (group == kNone) {
        group = static_cast<uint32_t>(groups.size());
        groups.push_back({text, {}, {}});
      }
    }
    groups[group].comparison.push_back(node);
  }
  return groups;
}

std::vector<OperatorGroup> GroupByName(const OperatorSide& base, const OperatorSide& comparison,
                                       std::span<const AlignedPair> pairs) {
  std::vector<uint32_t> base_nodes;
  std::vector<uint32_t> comparison_nodes;
  for (const AlignedPair& pair : pairs) {
    if (pair.base != kUnmatched) {
      base_nodes.push_back(pair.base);
    }
    if (pair.comparison != kUnmatched) {
      comparison_nodes.push_back(pair.comparison);
    }
  }
  return GroupByName(base, base_nodes, comparison, comparison_nodes);
}

namespace {

using report::Cell;
using enum report::NumberFormat;

constexpr size_t kSideColumns = 5;

// One side's cells of the rows.
class DetailCells {
 public:
  DetailCells(const DetailSheet& sheet, const OperatorSide& side, report::Table& table,
              const PairOptions& options)
      : sheet_(sheet),
        side_(side),
        table_(table),
        texts_(side.profile().texts, table),
        details_(options.whole_texts) {}

  // Returns the amount.
  double Fill(uint32_t node, std::span<Cell, kSideColumns> cells) {
    if (node == kUnmatched) {
      cells[4] = Cell::Number(0);
      return 0;
    }
    const profile::Operator& operation = side_.operation(node);
    details_.Clear();
    const double amount = sheet_.measure(side_, node, queue_, details_);
    cells[0] = texts_(operation.name);
    cells[1] = texts_(operation.shapes);
    cells[2] = texts_(operation.types);
    cells[3] = table_.KeepText(details_.text());
    cells[4] = Cell::Number(amount);
    return amount;
  }

 private:
  const DetailSheet& sheet_;
  const OperatorSide& side_;
  report::Table& table_;
  TextCells texts_;
  std::vector<uint32_t> queue_;
  DetailText details_;
};

report::FormattedTable FillDetails(const DetailSheet& sheet, const OperatorSide& base,
                                   const OperatorSide& comparison,
                                   std::span<const AlignedPair> pairs, const PairOptions& options) {
  const std::array<SheetColumn, 13> columns = {{{"Order Id", 10, kInteger},
                                                {"Operator Name", 30, kGeneral, true},
                                                {"Input Shape", 20, kInteger},
                                                {"Input Type", 20, kInteger},
                                                {sheet.details_column, 20, kInteger},
                                                {sheet.amount_column, 20, kFixed2},
                                                {"Operator Name", 30, kGeneral, true},
                                                {"Input Shape", 20, kInteger},
                                                {"Input Type", 20, kInteger},
                                                {sheet.details_column, 20, kInteger},
                                                {sheet.amount_column, 20, kFixed2},
                                                {sheet.difference_column, 20, kFixed2},
                                                {"Diff Ratio", 20, kPercent}}};
  report::FormattedTable result = MakeSheet(sheet.name, columns, {1, 5}, {6, 10}, options);
  result.table.Reserve(pairs.size());
  DetailCells base_cells(sheet, base, result.table, options);
  DetailCells comparison_cells(sheet, comparison, result.table, options);
  int64_t order = 0;
  for (const AlignedPair& pair : pairs) {
    std::array<Cell, 13> cells;
    const std::span<Cell, 13> row(cells);
    cells[0] = Cell::Integer(++order);
    const double base_amount = base_cells.Fill(pair.base, row.subspan<1, kSideColumns>());
    const double comparison_amount =
        comparison_cells.Fill(pair.comparison, row.subspan<1 + kSideColumns, kSideColumns>());
    const Difference difference = Differ(base_amount, comparison_amount);
    cells[11] = Cell::Number(difference.difference);
    cells[12] = Cell::Number(difference.ratio);
    result.table.AddRow(cells);
  }
  return result;
}

using Nodes = std::vector<uint32_t>;

constexpr uint32_t kUnnumbered = UINT32_MAX;

uint32_t Numbered(std::unordered_map<std::string_view, uint32_t>& numbers, std::string_view text) {
  return numbers.emplace(text, static_cast<uint32_t>(numbers.size())).first->second;
}

class OperatorMatcher {
 public:
  OperatorMatcher(const OperatorSide& base, const OperatorSide& comparison,
                  const PairOptions& options)
      : base_(base),
        comparison_(comparison),
        options_(options),
        keys_(base.profile(), comparison.profile(), options) {}

  std::vector<AlignedPair> Match();
  void Warn(std::vector<std::string>& warnings) const;

 private:
  void Pair(std::span<const uint32_t> base, std::span<const uint32_t> comparison,
            std::vector<AlignedPair>& pairs);
  void PairSegments(const std::vector<Nodes>& base, const std::vector<Nodes>& comparison);
  bool GivesWay(const AlignedPair& pair) const;
  void DrillDown();

  const OperatorSide& base_;
  const OperatorSide& comparison_;
  const PairOptions& options_;
  OperatorKeys keys_;
  std::vector<AlignedPair> pairs_;
  std::vector<uint32_t> base_keys_;  // scratch
  std::vector<uint32_t> comparison_keys_;
  size_t longest_base_ = 0;  // of the stretches that were not aligned exactly
  size_t longest_comparison_ = 0;
};

void OperatorMatcher::Pair(std::span<const uint32_t> base, std::span<const uint32_t> comparison,
                           std::vector<AlignedPair>& pairs) {
  base_keys_.clear();
  for (const uint32_t node : base) {
    base_keys_.push_back(keys_.Base(base_.operation(node)));
  }
  comparison_keys_.clear();
  for (const uint32_t node : comparison) {
    comparison_keys_.push_back(keys_.Comparison(comparison_.operation(node)));
  }
  const Aligned aligned = Align(base_keys_, comparison_keys_, options_.alignment);
  for (const AlignedPair& pair : aligned.pairs) {
    pairs.push_back({pair.base == kUnmatched ? kUnmatched : base[pair.base],
                     pair.comparison == kUnmatched ? kUnmatched : comparison[pair.comparison]});
  }
  if (!aligned.is_exact) {
    longest_base_ = std::max(longest_base_, base.size());
    longest_comparison_ = std::max(longest_comparison_, comparison.size());
  }
}

// Runs of top operators that are all on the thread of backward passes or all off it.
std::vector<Nodes> SegmentsOf(const OperatorSide& side, bool& starts_backward) {
  Nodes sorted(side.top().begin(), side.top().end());
  std::stable_sort(sorted.begin(), sorted.end(), [&side](uint32_t a, uint32_t b) {
    return side.operation(a).start < side.operation(b).start;
  });
  const TextId thread = *side.profile().backward_thread;
  std::vector<Nodes> segments;
  bool last = false;
  for (const uint32_t node : sorted) {
    const bool backward = side.operation(node).thread == thread;
    if (segments.empty()) {
      starts_backward = backward;
    }
    if (segments.empty() || backward != last) {
      segments.emplace_back();
    }
    segments.back().push_back(node);
    last = backward;
  }
  return segments;
}

void OperatorMatcher::PairSegments(const std::vector<Nodes>& base,
                                   const std::vector<Nodes>& comparison) {
  const Nodes none;
  for (size_t i = 0; i < std::max(base.size(), comparison.size()); ++i) {
    Pair(i < base.size() ? base[i] : none, i < comparison.size() ? comparison[i] : none, pairs_);
  }
}

bool OperatorMatcher::GivesWay(const AlignedPair& pair) const {
  if (pair.base == kUnmatched || pair.comparison == kUnmatched) {
    return false;
  }
  const auto& base = base_.tree()[pair.base];
  const auto& comparison = comparison_.tree()[pair.comparison];
  return base.child_count > 0 && comparison.child_count > 0 &&
         std::max(base.kernel_count, comparison.kernel_count) > *options_.max_kernels;
}

void OperatorMatcher::DrillDown() {
  std::vector<AlignedPair> waiting(pairs_.rbegin(), pairs_.rend());  // the next on top
  std::vector<AlignedPair> inside;
  pairs_.clear();
  while (!waiting.empty()) {
    const AlignedPair pair = waiting.back();
    waiting.pop_back();
    if (!GivesWay(pair)) {
      pairs_.push_back(pair);
      continue;
    }
    inside.clear();
    Pair(base_.tree().children(pair.base), comparison_.tree().children(pair.comparison), inside);
    waiting.insert(waiting.end(), inside.rbegin(), inside.rend());
  }
}

std::vector<AlignedPair> OperatorMatcher::Match() {
  if (!options_.details) {
    for (const uint32_t node : base_.top()) {
      pairs_.push_back({node, kUnmatched});
    }
    for (const uint32_t node : comparison_.top()) {
      pairs_.push_back({kUnmatched, node});
    }
    return std::move(pairs_);
  }
  if (!base_.profile().backward_thread || !comparison_.profile().backward_thread) {
    Pair(base_.top(), comparison_.top(), pairs_);
  } else {
    bool base_backward = false;
    bool comparison_backward = false;
    auto base = SegmentsOf(base_, base_backward);
    auto comparison = SegmentsOf(comparison_, comparison_backward);
    if (!base.empty() && !comparison.empty() && base_backward != comparison_backward) {
      // One side began elsewhere: its first segment has no partner.
      if (base.size() > comparison.size()) {
        comparison.emplace(comparison.begin());
      } else {
        base.emplace(base.begin());
      }
    }
    PairSegments(base, comparison);
  }
  if (options_.max_kernels.has_value()) {
    DrillDown();
  }
  return std::move(pairs_);
}

void OperatorMatcher::Warn(std::vector<std::string>& warnings) const {
  if (longest_base_ > 0) {
    warnings.push_back(fmt::format(
        "{} operators of the base against {} of the comparison are too many for an exact "
        "alignment: they were split at matching runs of operators, and aligned in between",
        base::FormatCount(longest_base_), base::FormatCount(longest_comparison_)));
  }
}

}  // namespace

OperatorKeys::OperatorKeys(const profile::Profile& base, const profile::Profile& comparison,
                           const PairOptions& options)
    : options_(options) {
  sides_[0].profile = &base;
  sides_[1].profile = &comparison;
  for (KnownNumbers& side : sides_) {
    side.names.assign(side.profile->texts.size(), kUnnumbered);
    side.shapes.assign(options.use_input_shape ? side.names.size() : 0, kUnnumbered);
  }
}

std::string_view OperatorKeys::Renamed(std::string_view name) const {
  if (options_.operator_names.empty()) {
    return name;
  }
  const auto found = options_.operator_names.find(std::string(name));
  return found == options_.operator_names.end() ? name : std::string_view(found->second);
}

uint32_t OperatorKeys::Key(KnownNumbers& side, const profile::Operator& operation) {
  uint32_t& name = side.names[operation.name];
  if (name == kUnnumbered) {
    name = Numbered(names_, Renamed(side.profile->texts[operation.name]));
  }
  if (!options_.use_input_shape) {
    return name;
  }
  uint32_t& shape = side.shapes[operation.shape_key];
  if (shape == kUnnumbered) {
    shape = Numbered(shapes_, side.profile->texts[operation.shape_key]);
  }
  const uint64_t pair = uint64_t{name} << 32U | shape;
  return pairs_.emplace(pair, static_cast<uint32_t>(pairs_.size())).first->second;
}

std::vector<AlignedPair> MatchOperators(const OperatorSide& base, const OperatorSide& comparison,
                                        const PairOptions& options,
                                        std::vector<std::string>& warnings) {
  OperatorMatcher matcher(base, comparison, options);
  auto pairs = matcher.Match();
  matcher.Warn(warnings);
  const bool any = std::any_of(pairs.begin(), pairs.end(), [](const AlignedPair& pair) {
    return pair.base != kUnmatched && pair.comparison != kUnmatched;
  });
  if (options.details && !any && !base.top().empty() && !comparison.top().empty()) {
    warnings.push_back(
        fmt::format("the two profiles have no operator in common: {} and {} are unmatched; the "
                    "first are {} and {}, and --op_name_map pairs operators of different names",
                    base::Plural(base.top().size(), "operator"),
                    base::Plural(comparison.top().size(), "operator"),
                    base::Printable(base.name(base.top().front())),
                    base::Printable(comparison.name(comparison.top().front()))));
  }
  return pairs;
}

namespace {

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

namespace {

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

namespace {

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
