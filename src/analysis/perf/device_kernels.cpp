#include "src/analysis/perf/device_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "src/analysis/perf/difference.h"
#include "src/analysis/perf/kernel_names.h"
#include "src/analysis/perf/sheet.h"
#include "src/analysis/perf/units.h"

namespace msprobe::analysis::perf {
namespace {

using profile::kNoText;
using profile::TextId;
using report::Cell;
using enum report::NumberFormat;

constexpr std::array<SheetColumn, 16> kKernelColumns = {{{"Order Id", 10, kInteger},
                                                         {"Family", 20, kGeneral, true},
                                                         {"Kernel", 60, kGeneral, true},
                                                         {"Change", 12, kGeneral},
                                                         {"Operator", 30, kGeneral},
                                                         {"Input Shape", 20, kGeneral},
                                                         {"Calls", 10, kInteger},
                                                         {"Total Duration(us)", 20, kFixed2},
                                                         {"Avg Duration(us)", 20, kFixed2},
                                                         {"Operator", 30, kGeneral},
                                                         {"Input Shape", 20, kGeneral},
                                                         {"Calls", 10, kInteger},
                                                         {"Total Duration(us)", 20, kFixed2},
                                                         {"Avg Duration(us)", 20, kFixed2},
                                                         {"Diff Duration(us)", 20, kFixed2},
                                                         {"Diff Ratio", 20, kPercent}}};

struct KernelTotals {
  double us = 0;
  int64_t calls = 0;
  // Of the operator (a name) and its shapes with the most time.
  std::string operation;
  std::string shapes;
};

struct DeviceKernel {
  std::string name;
  std::string_view family;
  std::array<KernelTotals, 2> sides;
  double change() const { return sides[1].us - sides[0].us; }
};

std::string_view ChangeWord(const std::array<KernelTotals, 2>& sides) {
  return sides[0].calls == 0 ? "added" : sides[1].calls == 0 ? "removed" : "both";
}

class Collector {
 public:
  void AddSide(size_t side, const DeviceWork& work) {
    const profile::Profile& profile = work.profile();
    // Time by kernel, operator and shapes; these are numbers of this profile's texts.
    struct Owned {
      double us = 0;
      int64_t calls = 0;
    };
    std::vector<std::pair<std::array<TextId, 3>, Owned>> owned;
    std::unordered_map<uint64_t, std::vector<size_t>> places;  // by kernel and operator
    for (const WorkItem& item : work.items()) {
      if (item.kernel == UINT32_MAX) {
        continue;
      }
      std::array<TextId, 3> key = {item.name, kNoText, kNoText};
      const uint32_t leaf = work.tree().OperatorOf(item.node);
      if (leaf != HostTree::kNone) {
        key[1] = work.tree()[leaf].name;
        key[2] = profile.operators[work.tree()[leaf].operation].shapes;
      } else if (item.kernel < profile.kernels.size()) {
        key[2] = profile.kernels[item.kernel].shapes;
      }
      std::vector<size_t>& candidates = places[uint64_t{key[0]} << 32U | key[1]];
      auto found = std::find_if(candidates.begin(), candidates.end(),
                                [&](size_t entry) { return owned[entry].first == key; });
      if (found == candidates.end()) {
        // Kernels of very many shapes are not told apart by them.
        constexpr size_t kMostShapes = 64;
        if (candidates.size() >= kMostShapes) {
          found = candidates.begin();
        } else {
          candidates.push_back(owned.size());
          owned.emplace_back(key, Owned());
          found = candidates.end() - 1;
        }
      }
      Owned& sum = owned[*found].second;
      sum.us += item.us;
      ++sum.calls;
    }
    std::unordered_map<size_t, double> largest;
    for (const auto& [key, sum] : owned) {
      const size_t index = KernelOf(profile.texts[key[0]]);
      KernelTotals& mine = kernels_[index].sides[side];
      mine.us += sum.us;
      mine.calls += sum.calls;
      const auto [most, is_first] = largest.try_emplace(index, sum.us);
      if (is_first || sum.us > most->second) {
        most->second = sum.us;
        mine.operation = profile.texts[key[1]];
        mine.shapes = profile.texts[key[2]];
      }
    }
  }

  std::vector<DeviceKernel> Take() {
    std::stable_sort(kernels_.begin(), kernels_.end(),
                     [](const DeviceKernel& a, const DeviceKernel& b) {
                       return std::fabs(a.change()) > std::fabs(b.change());
                     });
    return std::move(kernels_);
  }

 private:
  size_t KernelOf(std::string_view name) {
    std::string neutral = NeutralName(name);
    const auto [place, is_new] = places_.try_emplace(neutral, kernels_.size());
    if (is_new) {
      DeviceKernel& kernel = kernels_.emplace_back();
      kernel.name = std::move(neutral);
      kernel.family = KernelFamily(name);
    }
    return place->second;
  }

  std::vector<DeviceKernel> kernels_;
  std::unordered_map<std::string, size_t> places_;
};

std::vector<DeviceKernel> FamiliesOf(const std::vector<DeviceKernel>& kernels) {
  std::vector<DeviceKernel> families;
  for (const DeviceKernel& kernel : kernels) {
    auto found = std::find_if(families.begin(), families.end(), [&](const DeviceKernel& known) {
      return known.family == kernel.family;
    });
    if (found == families.end()) {
      found = families.insert(found, DeviceKernel{"[ TOTAL ]", kernel.family, {}});
    }
    for (const size_t side : {size_t{0}, size_t{1}}) {
      found->sides[side].us += kernel.sides[side].us;
      found->sides[side].calls += kernel.sides[side].calls;
    }
  }
  std::stable_sort(families.begin(), families.end(),
                   [](const DeviceKernel& a, const DeviceKernel& b) {
                     return std::fabs(a.change()) > std::fabs(b.change());
                   });
  return families;
}

KernelChange Told(const DeviceKernel& kernel) {
  KernelChange told;
  told.family = kernel.family;
  told.name = kernel.name;
  told.base_ms = kernel.sides[0].us / kUsPerMs;
  told.comparison_ms = kernel.sides[1].us / kUsPerMs;
  told.base_calls = kernel.sides[0].calls;
  told.comparison_calls = kernel.sides[1].calls;
  return told;
}

void AddKernelRow(const DeviceKernel& kernel, report::FormattedTable& sheet) {
  std::vector<Cell> cells = {Cell::Integer(static_cast<int64_t>(sheet.table.row_count()) + 1),
                             sheet.table.KeepText(kernel.family), sheet.table.KeepText(kernel.name),
                             sheet.table.KeepText(ChangeWord(kernel.sides))};
  for (const KernelTotals& side : kernel.sides) {
    cells.push_back(sheet.table.KeepText(side.operation));
    cells.push_back(sheet.table.KeepText(side.shapes));
    cells.push_back(Cell::Integer(side.calls));
    cells.push_back(Cell::Number(side.us));
    cells.push_back(Cell::Number(side.calls > 0 ? side.us / static_cast<double>(side.calls) : 0));
  }
  const Difference difference = Differ(kernel.sides[0].us, kernel.sides[1].us);
  cells.push_back(Cell::Number(difference.difference));
  cells.push_back(Cell::Number(difference.ratio));
  sheet.table.AddRow(cells);
}

}  // namespace

KernelComparison CompareDeviceKernels(const DeviceWork& base, const DeviceWork& comparison,
                                      const PairOptions& options, size_t most) {
  Collector collector;
  collector.AddSide(0, base);
  collector.AddSide(1, comparison);
  const std::vector<DeviceKernel> kernels = collector.Take();
  KernelComparison result;
  result.table = MakeSheet("Kernels", kKernelColumns, {4, 8}, {9, 13}, options);
  for (const DeviceKernel& family : FamiliesOf(kernels)) {
    AddKernelRow(family, result.table);
    result.families.push_back(Told(family));
    result.families.back().name.clear();
    for (const DeviceKernel& kernel : kernels) {
      if (kernel.family == family.family) {
        result.families.back().added += kernel.sides[0].calls == 0 ? 1 : 0;
        result.families.back().removed += kernel.sides[1].calls == 0 ? 1 : 0;
      }
    }
  }
  for (const DeviceKernel& kernel : kernels) {
    AddKernelRow(kernel, result.table);
    if (result.kernels.size() < most) {
      result.kernels.push_back(Told(kernel));
    }
  }
  return result;
}

}  // namespace msprobe::analysis::perf
