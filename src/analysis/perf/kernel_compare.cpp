#include "src/analysis/perf/kernel_compare.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>

#include "src/analysis/perf/difference.h"
#include "src/analysis/perf/sheet.h"

namespace msprobe::analysis::perf {
namespace {

using profile::Profile;
using report::Cell;
using enum report::NumberFormat;

constexpr size_t kKernelColumnCount = 15;

std::array<SheetColumn, kKernelColumnCount> ColumnsOf(std::string_view kind,
                                                      std::string_view variant) {
  return {{{"Order Id", 10, kInteger},
           {kind, 30, kGeneral, true},
           {variant, 20, kInteger},
           {"Total Duration(us)", 20, kFixed2},
           {"Avg Duration(us)", 20, kFixed2},
           {"Max Duration(us)", 20, kFixed2},
           {"Min Duration(us)", 20, kFixed2},
           {"Calls", 20, kInteger},
           {"Total Duration(us)", 20, kFixed2},
           {"Avg Duration(us)", 20, kFixed2},
           {"Max Duration(us)", 20, kFixed2},
           {"Min Duration(us)", 20, kFixed2},
           {"Calls", 20, kInteger},
           {"Diff Total Ratio", 20, kFixed2},
           {"Diff Avg Ratio", 20, kFixed2}}};
}

struct Durations {
  double total_us = 0;
  double average_us = 0;
  double max_us = 0;
  double min_us = 0;
  double count = 0;
  bool is_there = false;
};

// Kernels of one kind in one variant (shapes, core), on both sides.
struct KernelKind {
  std::string_view type;
  std::string_view variant;
  std::array<Durations, 2> sides;
};

// One side's kinds: types by first appearance, the variants of each likewise.
class SideKinds {
 public:
  Durations& At(std::string_view type, std::string_view variant) {
    const auto [type_place, new_type] = index_.emplace(type, types_.size());
    if (new_type) {
      types_.emplace_back();
    }
    Variants& variants = types_[type_place->second];
    const auto [place, is_new] = variants.index.emplace(variant, variants.kinds.size());
    if (is_new) {
      variants.kinds.push_back({type, variant, {}});
    }
    return variants.kinds[place->second].durations;
  }
  const Durations* Find(std::string_view type, std::string_view variant) const {
    const auto type_place = index_.find(type);
    if (type_place == index_.end()) {
      return nullptr;
    }
    const Variants& variants = types_[type_place->second];
    const auto place = variants.index.find(variant);
    return place == variants.index.end() ? nullptr : &variants.kinds[place->second].durations;
  }
  bool empty() const { return types_.empty(); }
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (const Variants& variants : types_) {
      for (const OneKind& kind : variants.kinds) {
        visit(kind.type, kind.variant, kind.durations);
      }
    }
  }

 private:
  struct OneKind {
    std::string_view type;
    std::string_view variant;
    Durations durations;
  };
  struct Variants {
    std::vector<OneKind> kinds;
    std::unordered_map<std::string_view, size_t> index;
  };
  std::vector<Variants> types_;
  std::unordered_map<std::string_view, size_t> index_;
};

// The base's kinds with their partners, then what only the comparison has.
std::vector<KernelKind> Join(const SideKinds& base, const SideKinds& comparison) {
  std::vector<KernelKind> kinds;
  base.ForEach([&](std::string_view type, std::string_view variant, const Durations& durations) {
    const Durations* partner = comparison.Find(type, variant);
    kinds.push_back({type, variant, {durations, partner == nullptr ? Durations() : *partner}});
  });
  comparison.ForEach(
      [&](std::string_view type, std::string_view variant, const Durations& durations) {
        if (base.Find(type, variant) == nullptr) {
          kinds.push_back({type, variant, {Durations(), durations}});
        }
      });
  return kinds;
}

void AddRow(const KernelKind& kind, bool blank_where_missing, int64_t order,
            report::FormattedTable& sheet) {
  std::array<Cell, kKernelColumnCount> cells;
  cells[0] = Cell::Integer(order);
  cells[1] = sheet.table.KeepText(kind.type);
  cells[2] = sheet.table.KeepText(kind.variant);
  size_t column = 3;
  for (const Durations& side : kind.sides) {
    cells[column] = Cell::Number(side.total_us);
    cells[column + 1] = Cell::Number(side.average_us);
    if (side.is_there || !blank_where_missing) {
      cells[column + 2] = Cell::Number(side.max_us);
      cells[column + 3] = Cell::Number(side.min_us);
      cells[column + 4] = Cell::Number(side.count);
    }
    column += 5;
  }
  const auto& [base, comparison] = kind.sides;
  cells[13] = Cell::Number(Differ(base.total_us, comparison.total_us).ratio);
  cells[14] = Cell::Number(Differ(base.average_us, comparison.average_us).ratio);
  sheet.table.AddRow(cells);
}

// Kernels by type and shapes.
SideKinds CollectKernels(const Profile& side, const std::optional<std::string>& step,
                         std::vector<std::string>& warnings) {
  SideKinds kinds;
  // Databases were filtered while they were read, and name only kernels.
  const bool is_database = side.source == profile::Source::kDatabase;
  const bool filter = step.has_value() && !is_database;
  bool in_step = false;
  for (const profile::KernelDetail& row : side.kernel_details) {
    if (filter && side.texts[row.step] != *step) {
      continue;
    }
    in_step = true;
    const std::string_view type = side.texts[row.type];
    if (type.empty() || (type == "N/A" && !is_database)) {
      continue;
    }
    const std::string_view shapes = side.texts[row.shapes];
    Durations& kind = kinds.At(type, shapes.empty() ? "N/A" : shapes);
    kind.max_us = kind.is_there ? std::max(kind.max_us, row.duration_us) : row.duration_us;
    kind.min_us = kind.is_there ? std::min(kind.min_us, row.duration_us) : row.duration_us;
    kind.total_us += row.duration_us;
    kind.count += 1;
    kind.is_there = true;
  }
  if (filter && !in_step && !side.kernel_details.empty()) {
    warnings.push_back(
        fmt::format("{}: no kernels of step {} in its kernel details", side.path.string(), *step));
  }
  return kinds;
}

report::FormattedTable ByShapes(const Profile& base, const Profile& comparison,
                                const PairOptions& options, std::vector<std::string>& warnings) {
  auto sheet =
      MakeSheet("KernelCompare", ColumnsOf("Kernel", "Input Shape"), {3, 7}, {8, 12}, options);
  const SideKinds base_kinds = CollectKernels(base, options.base_step, warnings);
  const SideKinds comparison_kinds = CollectKernels(comparison, options.comparison_step, warnings);
  if (base_kinds.empty() || comparison_kinds.empty()) {
    return sheet;
  }
  int64_t order = 0;
  for (KernelKind& kind : Join(base_kinds, comparison_kinds)) {
    for (Durations& side : kind.sides) {
      if (side.is_there) {
        side.total_us = RoundToDigits(side.total_us, 2);
        side.average_us = RoundToDigits(side.total_us / side.count, 2);
        side.max_us = RoundToDigits(side.max_us, 2);
        side.min_us = RoundToDigits(side.min_us, 2);
      }
    }
    AddRow(kind, true, ++order, sheet);
  }
  return sheet;
}

SideKinds CollectStatistics(const Profile& side) {
  SideKinds kinds;
  for (const profile::OperatorStatistic& row : side.operator_statistics) {
    kinds.At(side.texts[row.type], side.texts[row.core_type]) = {
        row.total_us, row.average_us, row.max_us, row.min_us, row.count, true};
  }
  return kinds;
}

report::FormattedTable ByCore(const Profile& base, const Profile& comparison,
                              const PairOptions& options) {
  auto sheet = MakeSheet("KernelTypeCompare", ColumnsOf("Kernel Type", "Core Type"), {3, 7},
                         {8, 12}, options);
  std::vector<KernelKind> rows = Join(CollectStatistics(base), CollectStatistics(comparison));
  const auto ratio = [](const KernelKind& kind) {
    return Differ(kind.sides[0].total_us, kind.sides[1].total_us).ratio;
  };
  std::stable_sort(rows.begin(), rows.end(), [&ratio](const KernelKind& a, const KernelKind& b) {
    return ratio(a) > ratio(b);
  });
  int64_t order = 0;
  for (const KernelKind& kind : rows) {
    AddRow(kind, false, ++order, sheet);
  }
  return sheet;
}

}  // namespace

report::FormattedTable KernelCompare(const Profile& base, const Profile& comparison,
                                     const PairOptions& options,
                                     std::vector<std::string>& warnings) {
  if (base.device != profile::Device::kNpu || comparison.device != profile::Device::kNpu) {
    return {};
  }
  return options.use_kernel_type ? ByCore(base, comparison, options)
                                 : ByShapes(base, comparison, options, warnings);
}

}  // namespace msprobe::analysis::perf
