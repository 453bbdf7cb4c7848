#include "src/analysis/perf/findings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <unordered_map>
#include <utility>

#include "src/analysis/perf/api_compare.h"
#include "src/analysis/perf/memory_compare.h"
#include "src/analysis/perf/module_match.h"
#include "src/analysis/perf/operator_compare.h"
#include "src/analysis/perf/operator_groups.h"

namespace msprobe::analysis::perf {
namespace {

using profile::kNoText;
using profile::TextId;

constexpr uint32_t kNoModule = UINT32_MAX;

// Sorts, cuts and appends the differences of one metric.
void Rank(std::vector<Finding> findings, size_t most, std::vector<Finding>& all) {
  const auto size = [](const Finding& finding) {
    const double difference = std::fabs(finding.comparison - finding.base);
    return std::isfinite(difference) ? difference : 0;
  };
  double base = 0;
  double comparison = 0;
  for (const Finding& finding : findings) {
    base += std::fabs(finding.base);
    comparison += std::fabs(finding.comparison);
  }
  const double noise = std::max(base, comparison) / 1000;
  findings.erase(std::remove_if(findings.begin(), findings.end(),
                                [&](const Finding& finding) {
                                  return !(size(finding) > 0 && size(finding) >= noise);
                                }),
                 findings.end());
  std::stable_sort(findings.begin(), findings.end(),
                   [&size](const Finding& a, const Finding& b) { return size(a) > size(b); });
  for (size_t i = 0; i < std::min(most, findings.size()); ++i) {
    all.push_back(std::move(findings[i]));
  }
}

std::string CallStackOf(const OperatorSide& side, std::span<const uint32_t> nodes) {
  for (const uint32_t node : nodes) {
    if (const TextId stack = side.operation(node).call_stack; stack != kNoText) {
      return std::string(side.profile().texts[stack]);
    }
  }
  return {};
}

// By operator name; measure(side, node) is what one amounts to.
template <typename Measure>
std::vector<Finding> ByName(const OperatorSide& base, const OperatorSide& comparison,
                            const std::vector<OperatorGroup>& groups, std::string_view metric,
                            const Measure& measure) {
  std::vector<Finding> findings;
  for (const OperatorGroup& group : groups) {
    Finding finding;
    finding.where = group.name;
    finding.metric = metric;
    for (const uint32_t node : group.base) {
      finding.base += measure(base, node);
    }
    for (const uint32_t node : group.comparison) {
      finding.comparison += measure(comparison, node);
    }
    finding.base_calls = static_cast<int64_t>(group.base.size());
    finding.comparison_calls = static_cast<int64_t>(group.comparison.size());
    finding.call_stack = CallStackOf(comparison, group.comparison);
    if (finding.call_stack.empty()) {
      finding.call_stack = CallStackOf(base, group.base);
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

// Device time by operator and class of module.
class ModuleTimes {
 public:
  std::vector<Finding> Collect(const ModuleSide& base, const ModuleSide& comparison) {
    AddSide(0, base);
    AddSide(1, comparison);
    for (size_t i = 0; i < findings_.size(); ++i) {
      findings_[i].call_stack = CallStack(base, comparison, i);
    }
    return std::move(findings_);
  }

 private:
  // Where a finding was met first on a side.
  struct Witness {
    bool is_set = false;
    uint32_t module = kNoModule;
    const ModuleOperator* operation = nullptr;  // null: no operator launched it
  };

  void AddSide(size_t index, const ModuleSide& side) {
    known_.clear();
    for (uint32_t module = 0; module < side.modules().size(); ++module) {
      double rest_us = side[module].self_us;
      for (const ModuleOperator& operation : side.operators(module)) {
        const double us = DeviceUs(side, operation);
        rest_us -= us;
        Add(index, side, module, &operation, us);
      }
      // Sums in another order differ in their last bits.
      if (rest_us > side[module].self_us * 1e-9) {
        Add(index, side, module, nullptr, rest_us);
      }
    }
    for (const ModuleOperator& operation : side.outside()) {
      Add(index, side, kNoModule, &operation, DeviceUs(side, operation));
    }
  }

  static double DeviceUs(const ModuleSide& side, const ModuleOperator& operation) {
    double us = 0;
    for (const uint32_t kernel : side.kernels(operation)) {
      us += side.profile().kernels[kernel].duration_us;
    }
    return us;
  }

  void Add(size_t index, const ModuleSide& side, uint32_t module, const ModuleOperator* operation,
           double us) {
    const TextId path = module == kNoModule ? kNoText : side[module].path;
    const TextId name =
        operation == nullptr ? kNoText : side.profile().operators[operation->operation].name;
    const auto [place, is_new] = known_.emplace(uint64_t{path} << 32U | name, 0);
    if (is_new) {
      place->second = Number(side, module, operation);
    }
    Finding& finding = findings_[place->second];
    (index == 0 ? finding.base : finding.comparison) += us / 1000;
    ++(index == 0 ? finding.base_calls : finding.comparison_calls);
    Witness& witness = witnesses_[place->second][index];
    if (!witness.is_set) {
      witness = {true, module, operation};
    }
  }

  size_t Number(const ModuleSide& side, uint32_t module, const ModuleOperator* operation) {
    std::string where(operation == nullptr ? "launches outside operators" : side.name(*operation));
    if (module != kNoModule) {
      const std::string_view path = side.path(module);
      where += " under ";
      where += ModuleClass(path);
      where += path.substr(0, 13) == "/[ BACKWARD ]" ? " (backward)" : "";
    }
    const auto [place, is_new] = by_where_.emplace(where, findings_.size());
    if (is_new) {
      findings_.emplace_back();
      findings_.back().where = std::move(where);
      findings_.back().metric = kDeviceTime;
      witnesses_.emplace_back();
    }
    return place->second;
  }

  std::string CallStack(const ModuleSide& base, const ModuleSide& comparison, size_t i) const {
    for (const size_t index : {size_t{1}, size_t{0}}) {
      const ModuleSide& side = index == 0 ? base : comparison;
      const Witness& witness = witnesses_[i][index];
      if (witness.operation != nullptr) {
        const TextId stack = side.profile().operators[witness.operation->operation].call_stack;
        if (stack != kNoText) {
          return std::string(side.profile().texts[stack]);
        }
      }
      if (witness.module != kNoModule) {
        return side.CallStack(witness.module);
      }
    }
    return {};
  }

  std::vector<Finding> findings_;
  std::vector<std::array<Witness, 2>> witnesses_;  // of each finding, by side
  std::unordered_map<std::string, size_t> by_where_;
  std::unordered_map<uint64_t, size_t> known_;  // of one side: path and name
};

}  // namespace

std::vector<Finding> FindDifferences(const OperatorSide& base, const OperatorSide& comparison,
                                     std::span<const AlignedPair> pairs,
                                     const ModuleSide* base_modules,
                                     const ModuleSide* comparison_modules, size_t most) {
  std::vector<uint32_t> queue;
  const auto device_ms = [&queue](const OperatorSide& side, uint32_t node) {
    return DeviceMs(side, node, queue);
  };
  const auto host_ms = [](const OperatorSide& side, uint32_t node) {
    return HostSelfUs(side, node) / 1000;
  };
  const auto memory_mb = [&queue](const OperatorSide& side, uint32_t node) {
    return AllocatedBy(side, node, queue).mb;
  };
  const auto of_pairs = GroupByName(base, comparison, pairs);
  const bool with_modules = base_modules != nullptr && comparison_modules != nullptr &&
                            base_modules->has_modules() && comparison_modules->has_modules();
  std::vector<Finding> all;
  Rank(with_modules ? ModuleTimes().Collect(*base_modules, *comparison_modules)
                    : ByName(base, comparison, of_pairs, kDeviceTime, device_ms),
       most, all);
  Rank(ByName(base, comparison, GroupByName(base, base.all(), comparison, comparison.all()),
              kHostTime, host_ms),
       most, all);
  Rank(ByName(base, comparison, of_pairs, kMemory, memory_mb), most, all);
  return all;
}

}  // namespace msprobe::analysis::perf
