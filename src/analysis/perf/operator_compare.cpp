#include "src/analysis/perf/operator_compare.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/perf/sheet.h"
#include "src/base/strings.h"

namespace msprobe::analysis::perf {
namespace {

using report::Cell;
using enum report::NumberFormat;

using Nodes = std::vector<uint32_t>;

// ---- Which operators of both sides are one ----

// The keys of matching, in one numbering for both sides: the name, replaced where the options say
// so, and where they ask for it the input shapes.
class OperatorKeys {
 public:
  explicit OperatorKeys(const PairOptions& options) : options_(options) {}

  uint32_t Of(size_t side, const OperatorSide& operators, uint32_t node) {
    const profile::Operator& operation = operators.operation(node);
    const profile::Texts& texts = operators.profile().texts;
    const uint32_t name =
        names_.Of(side, operation.name, [&] { return Renamed(texts[operation.name]); });
    if (!options_.use_input_shape) {
      return name;
    }
    const uint32_t shape =
        shapes_.Of(side, operation.shape_key, [&] { return texts[operation.shape_key]; });
    return pairs_.emplace(uint64_t{name} << 32U | shape, static_cast<uint32_t>(pairs_.size()))
        .first->second;
  }

 private:
  // Equal texts of either side have equal numbers; each is looked up once.
  class Numbers {
   public:
    template <typename Text>
    uint32_t Of(size_t side, profile::TextId id, const Text& text) {
      std::vector<uint32_t>& known = known_[side];
      known.resize(std::max<size_t>(known.size(), id + size_t{1}), kUnmatched);
      if (known[id] == kUnmatched) {
        known[id] = numbers_.emplace(text(), static_cast<uint32_t>(numbers_.size())).first->second;
      }
      return known[id];
    }

   private:
    std::array<std::vector<uint32_t>, 2> known_;  // by TextId
    std::unordered_map<std::string_view, uint32_t> numbers_;
  };

  std::string_view Renamed(std::string_view name) const {
    if (options_.operator_names.empty()) {
      return name;
    }
    const auto found = options_.operator_names.find(std::string(name));
    return found == options_.operator_names.end() ? name : std::string_view(found->second);
  }

  const PairOptions& options_;
  Numbers names_;
  Numbers shapes_;
  std::unordered_map<uint64_t, uint32_t> pairs_;  // of a name and shapes
};

// Runs of top operators that are all on the thread of backward passes or all off it.
std::vector<Nodes> SegmentsOf(const OperatorSide& side, bool& starts_backward) {
  Nodes sorted(side.top().begin(), side.top().end());
  std::stable_sort(sorted.begin(), sorted.end(), [&side](uint32_t a, uint32_t b) {
    return side.operation(a).start < side.operation(b).start;
  });
  std::vector<Nodes> segments;
  bool last = false;
  for (const uint32_t node : sorted) {
    const bool backward = side.operation(node).thread == *side.profile().backward_thread;
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

// The segments of both sides that belong together, as many of either; some are empty.
std::array<std::vector<Nodes>, 2> PairedSegments(const OperatorSide& base,
                                                 const OperatorSide& comparison) {
  bool base_backward = false;
  bool comparison_backward = false;
  std::array<std::vector<Nodes>, 2> sides = {SegmentsOf(base, base_backward),
                                             SegmentsOf(comparison, comparison_backward)};
  if (!sides[0].empty() && !sides[1].empty() && base_backward != comparison_backward) {
    // One side began elsewhere: its first segment has no partner.
    std::vector<Nodes>& shorter = sides[sides[0].size() > sides[1].size() ? 1 : 0];
    shorter.emplace(shorter.begin());
  }
  for (std::vector<Nodes>& side : sides) {
    side.resize(std::max(sides[0].size(), sides[1].size()));
  }
  return sides;
}

}  // namespace

std::vector<AlignedPair> MatchOperators(const OperatorSide& base, const OperatorSide& comparison,
                                        const PairOptions& options,
                                        std::vector<std::string>& warnings) {
  OperatorKeys keys(options);
  std::array<size_t, 2> longest = {};  // of the sequences that were not aligned exactly
  const auto align = [&](std::span<const uint32_t> base_nodes,
                         std::span<const uint32_t> comparison_nodes,
                         std::vector<AlignedPair>& pairs) {
    const bool is_exact = AlignNodes(
        base_nodes, comparison_nodes, [&](uint32_t node) { return keys.Of(0, base, node); },
        [&](uint32_t node) { return keys.Of(1, comparison, node); }, options.alignment, pairs);
    if (!is_exact) {
      longest = {std::max(longest[0], base_nodes.size()),
                 std::max(longest[1], comparison_nodes.size())};
    }
  };
  std::vector<AlignedPair> pairs;
  if (!options.details) {
    AppendUnmatched(base.top(), comparison.top(), pairs);
    return pairs;
  }
  if (!base.profile().backward_thread || !comparison.profile().backward_thread) {
    align(base.top(), comparison.top(), pairs);
  } else {
    const auto& [base_segments, comparison_segments] = PairedSegments(base, comparison);
    for (size_t i = 0; i < base_segments.size(); ++i) {
      align(base_segments[i], comparison_segments[i], pairs);
    }
  }
  if (options.max_kernels.has_value()) {
    // Pairs to look at, the next one on top; those with children and many kernels become pairs of
    // children.
    std::vector<AlignedPair> waiting(pairs.rbegin(), pairs.rend());
    std::vector<AlignedPair> inside;
    pairs.clear();
    while (!waiting.empty()) {
      const AlignedPair pair = waiting.back();
      waiting.pop_back();
      const OperatorTree& left = base.tree();
      const OperatorTree& right = comparison.tree();
      if (pair.base == kUnmatched || pair.comparison == kUnmatched ||
          left.children(pair.base).empty() || right.children(pair.comparison).empty() ||
          std::max(left[pair.base].kernel_count, right[pair.comparison].kernel_count) <=
              *options.max_kernels) {
        pairs.push_back(pair);
        continue;
      }
      inside.clear();
      align(left.children(pair.base), right.children(pair.comparison), inside);
      waiting.insert(waiting.end(), inside.rbegin(), inside.rend());
    }
  }
  if (longest[0] > 0) {
    warnings.push_back(fmt::format(
        "{} operators of the reference against {} of the test are too many for an exact "
        "alignment: they were split at matching runs of operators, and aligned in between",
        base::FormatCount(longest[0]), base::FormatCount(longest[1])));
  }
  const bool any = std::any_of(pairs.begin(), pairs.end(), [](const AlignedPair& pair) {
    return pair.base != kUnmatched && pair.comparison != kUnmatched;
  });
  if (!any && !base.top().empty() && !comparison.top().empty()) {
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

// ---- Sheets of pairs ----

// A row per pair of operators: what they launched, or allocated.
struct DetailRow : Difference {
  struct Side {
    Cell name, shapes, types, details;
    double amount = 0;
  };
  std::array<Side, 2> sides;
};

struct DetailNames {
  std::string_view sheet;
  std::string_view details;
  std::string_view amount;
  std::string_view difference;
};

// measure(side, node, queue, details): what a node and everything below it amounts to, with the
// lines that say so.
template <typename Measure>
report::FormattedTable FillDetails(const DetailNames& names,
                                   const std::array<const OperatorSide*, 2>& sides,
                                   std::span<const AlignedPair> pairs, const PairOptions& options,
                                   const Measure& measure) {
  using Side = DetailRow::Side;
  Sheet<DetailRow> sheet(names.sheet,
                         {{{"Order Id", 10, kInteger, kRowNumber}},
                          {{"Operator Name", 30, kGeneral, &Side::name, true},
                           {"Input Shape", 20, kInteger, &Side::shapes},
                           {"Input Type", 20, kInteger, &Side::types},
                           {names.details, 20, kInteger, &Side::details},
                           {names.amount, 20, kFixed2, &Side::amount}},
                          {{names.difference, 20, kFixed2, &DetailRow::difference},
                           {"Diff Ratio", 20, kPercent, &DetailRow::ratio}}},
                         options);
  sheet.table().Reserve(pairs.size());
  std::array<TextCells, 2> texts = {TextCells(sides[0]->profile().texts, sheet.table()),
                                    TextCells(sides[1]->profile().texts, sheet.table())};
  std::array<DetailText, 2> details = {DetailText(options.whole_texts),
                                       DetailText(options.whole_texts)};
  std::vector<uint32_t> queue;
  for (const AlignedPair& pair : pairs) {
    DetailRow row;
    for (size_t i = 0; i < sides.size(); ++i) {
      const uint32_t node = i == 0 ? pair.base : pair.comparison;
      if (node == kUnmatched) {
        continue;
      }
      const profile::Operator& operation = sides[i]->operation(node);
      details[i].Clear();
      const double amount = measure(*sides[i], node, queue, details[i]);
      row.sides[i] = {texts[i](operation.name), texts[i](operation.shapes),
                      texts[i](operation.types), sheet.table().KeepText(details[i].text()), amount};
    }
    static_cast<Difference&>(row) = Differ(row.sides[0].amount, row.sides[1].amount);
    sheet.Add(row);
  }
  return sheet.Take();
}

// ---- Sheets by name ----

struct OperatorGroup {
  std::string_view name;  // of the profiles' texts
  std::array<Nodes, 2> sides;
};

// Names of the base by first appearance, then those that only the comparison has.
std::vector<OperatorGroup> GroupByName(const OperatorSide& base,
                                       std::span<const uint32_t> base_nodes,
                                       const OperatorSide& comparison,
                                       std::span<const uint32_t> comparison_nodes) {
  SharedNames shared(base.profile().texts, comparison.profile().texts);
  std::vector<OperatorGroup> groups;
  std::vector<uint32_t> group_of(shared.size(), kUnmatched);
  const auto add = [&](size_t side, const OperatorSide& operators, uint32_t node, uint32_t name) {
    if (group_of[name] == kUnmatched) {
      group_of[name] = static_cast<uint32_t>(groups.size());
      groups.push_back({operators.name(node), {}});
    }
    groups[group_of[name]].sides[side].push_back(node);
  };
  for (const uint32_t node : base_nodes) {
    add(0, base, node, base.operation(node).name);
  }
  for (const uint32_t node : comparison_nodes) {
    add(1, comparison, node, shared(comparison.operation(node).name));
  }
  return groups;
}

// The operators of pairs by name: what they took on the device, or allocated.
struct StatisticRow : Difference {
  struct Side {
    double ms = 0;
    double mb = 0;
    int64_t count = 0;
  };
  std::string_view name;
  std::array<Side, 2> sides;
};

// The largest growth of `rank_by` first. measure(side, node, queue) gives ms and mb of one node and
// everything below it.
template <typename Measure>
report::FormattedTable FillStatistic(std::string_view name, SheetColumns<StatisticRow> columns,
                                     const std::array<const OperatorSide*, 2>& sides,
                                     std::span<const AlignedPair> pairs, const PairOptions& options,
                                     double StatisticRow::Side::*rank_by, const Measure& measure) {
  Nodes base_nodes;
  Nodes comparison_nodes;
  for (const AlignedPair& pair : pairs) {
    if (pair.base != kUnmatched) {
      base_nodes.push_back(pair.base);
    }
    if (pair.comparison != kUnmatched) {
      comparison_nodes.push_back(pair.comparison);
    }
  }
  std::vector<StatisticRow> rows;
  std::vector<uint32_t> queue;
  for (const OperatorGroup& group :
       GroupByName(*sides[0], base_nodes, *sides[1], comparison_nodes)) {
    StatisticRow& row = rows.emplace_back();
    row.name = group.name;
    for (size_t i = 0; i < sides.size(); ++i) {
      for (const uint32_t node : group.sides[i]) {
        const StatisticRow::Side one = measure(*sides[i], node, queue);
        row.sides[i].ms += one.ms;
        row.sides[i].mb += one.mb;
        ++row.sides[i].count;
      }
    }
    static_cast<Difference&>(row) = Differ(row.sides[0].*rank_by, row.sides[1].*rank_by);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const StatisticRow& a, const StatisticRow& b) {
    return a.difference > b.difference;
  });
  columns.front = {{"Top", 10, kInteger, kRowNumber},
                   {"Operator Name", 30, kGeneral, &StatisticRow::name, true}};
  columns.back.push_back({"Diff Ratio", 20, kPercent, &StatisticRow::ratio});
  Sheet<StatisticRow> sheet(name, std::move(columns), options);
  for (const StatisticRow& row : rows) {
    sheet.Add(row);
  }
  return sheet.Take();
}

}  // namespace

report::FormattedTable OperatorDetails(const OperatorSide& base, const OperatorSide& comparison,
                                       std::span<const AlignedPair> pairs,
                                       const PairOptions& options) {
  return FillDetails(
      {"OperatorCompare", "Kernel Details", "Device Duration(us)", "Diff Duration(us)"},
      {&base, &comparison}, pairs, options,
      [](const OperatorSide& side, uint32_t node, std::vector<uint32_t>& queue,
         DetailText& details) {
        double total_us = 0;
        side.VisitKernels(node, queue, [&](const profile::Kernel& kernel) {
          total_us += kernel.duration_us;
          details.Add([&](std::string& out) { AppendKernelText(side.profile(), kernel, out); });
        });
        return total_us;
      });
}

report::FormattedTable OperatorStatistic(const OperatorSide& base, const OperatorSide& comparison,
                                         std::span<const AlignedPair> pairs,
                                         const PairOptions& options) {
  using Side = StatisticRow::Side;
  return FillStatistic("OperatorCompareStatistic",
                       {{},
                        {{"Device Duration(ms)", 25, kFixed2, &Side::ms},
                         {"Operator Number", 25, kInteger, &Side::count}},
                        {{"Diff Duration(ms)", 20, kFixed2, &StatisticRow::difference}},
                        {30, 30}},
                       {&base, &comparison}, pairs, options, &Side::ms,
                       [](const OperatorSide& side, uint32_t node, std::vector<uint32_t>& queue) {
                         Side total;
                         side.VisitKernels(node, queue, [&](const profile::Kernel& kernel) {
                           total.ms += kernel.duration_us / 1000;
                         });
                         return total;
                       });
}

report::FormattedTable MemoryDetails(const OperatorSide& base, const OperatorSide& comparison,
                                     std::span<const AlignedPair> pairs,
                                     const PairOptions& options) {
  return FillDetails(
      {"MemoryCompare", "Allocated Details", "Size(KB)", "Diff Size(KB)"}, {&base, &comparison},
      pairs, options,
      [](const OperatorSide& side, uint32_t node, std::vector<uint32_t>& queue,
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
      });
}

report::FormattedTable MemoryStatistic(const OperatorSide& base, const OperatorSide& comparison,
                                       std::span<const AlignedPair> pairs,
                                       const PairOptions& options) {
  using Side = StatisticRow::Side;
  return FillStatistic("MemoryCompareStatistic",
                       {{},
                        {{"Allocated Duration(ms)", 25, kFixed2, &Side::ms},
                         {"Allocated Memory(MB)", 30, kFixed2, &Side::mb},
                         {"Operator Number", 25, kInteger, &Side::count}},
                        {{"Diff Memory(MB)", 20, kFixed2, &StatisticRow::difference}},
                        {27, 33, 25}},
                       {&base, &comparison}, pairs, options, &Side::mb,
                       [](const OperatorSide& side, uint32_t node, std::vector<uint32_t>& queue) {
                         Side total;
                         side.VisitAllocations(
                             node, queue,
                             [&](const profile::Allocation& allocation, profile::TextId) {
                               total.mb += allocation.size_kb / 1024;
                               total.ms += allocation.duration_us / 1000;
                             });
                         return total;
                       });
}

namespace {

// ---- Host calls by name ----

struct ApiRow {
  struct Side {
    double total_ms = 0;
    double self_ms = 0;
    double average_ms = 0;
    int64_t count = 0;
  };
  std::string_view name;
  std::array<Side, 2> sides;
  double total_ratio = 0, self_ratio = 0, average_ratio = 0, count_ratio = 0;
};

// Host time of a call that is not its callees', in us; as in the Python tool, which nests without
// regard to threads, negative where callees outlive it.
double HostSelfUs(const OperatorSide& side, uint32_t node) {
  double callees_us = 0;
  for (const uint32_t child : side.tree().children(node)) {
    callees_us += side.operation(child).duration_us;
  }
  return side.operation(node).duration_us - callees_us;
}

ApiRow::Side MeasureCalls(const OperatorSide& side, std::span<const uint32_t> nodes) {
  ApiRow::Side calls;
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
  if (step.has_value() && side.all().empty() && side.tree().size() > 0) {
    warnings.push_back(fmt::format("{}: no operators in step {}, so host calls are not compared",
                                   side.profile().path.string(), *step));
  }
}

}  // namespace

report::FormattedTable ApiCompare(const OperatorSide& base, const OperatorSide& comparison,
                                  const PairOptions& options, std::vector<std::string>& warnings) {
  using Side = ApiRow::Side;
  Sheet<ApiRow> sheet(
      "ApiCompare",
      {{{"Order Id", 10, kInteger, kRowNumber}, {"api name", 30, kGeneral, &ApiRow::name, true}},
       {{"Total Duration(ms)", 20, kFixed2, &Side::total_ms},
        {"Self Time(ms)", 20, kFixed2, &Side::self_ms},
        {"Avg Duration(ms)", 20, kFixed2, &Side::average_ms},
        {"Calls", 20, kInteger, &Side::count}},
       {{"Diff Total Ratio", 20, kFixed2, &ApiRow::total_ratio},
        {"Diff Self Ratio", 20, kFixed2, &ApiRow::self_ratio},
        {"Diff Avg Ratio", 20, kFixed2, &ApiRow::average_ratio},
        {"Diff Calls Ratio", 20, kFixed2, &ApiRow::count_ratio}}},
      options);
  WarnOfStep(base, options.base_step, warnings);
  WarnOfStep(comparison, options.comparison_step, warnings);
  if (base.all().empty() || comparison.all().empty()) {
    return sheet.Take();
  }
  for (const OperatorGroup& group : GroupByName(base, base.all(), comparison, comparison.all())) {
    ApiRow row;
    row.name = group.name;
    row.sides = {MeasureCalls(base, group.sides[0]), MeasureCalls(comparison, group.sides[1])};
    const auto& [left, right] = row.sides;
    row.total_ratio = Differ(left.total_ms, right.total_ms).ratio;
    row.self_ratio = Differ(left.self_ms, right.self_ms).ratio;
    row.average_ratio = Differ(left.average_ms, right.average_ms).ratio;
    row.count_ratio =
        Differ(static_cast<double>(left.count), static_cast<double>(right.count)).ratio;
    sheet.Add(row);
  }
  return sheet.Take();
}

}  // namespace msprobe::analysis::perf
