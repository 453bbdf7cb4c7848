#include "src/analysis/perf/findings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/perf/group_findings.h"
#include "src/analysis/perf/kernel_names.h"
#include "src/analysis/perf/units.h"
#include "src/analysis/perf/wait_findings.h"
#include "src/analysis/perf/work_groups.h"
#include "src/profile/common/time_sum.h"

namespace msprobe::analysis::perf {
namespace {

using Kind = HostTree::Kind;

constexpr double kKbPerMb = 1024;
constexpr double kSamePercent = 1;  // growth up to which two runs count as equally fast

double SizeOf(const Finding& finding) {
  const double difference = std::fabs(finding.comparison - finding.base);
  return std::isfinite(difference) ? difference : 0;
}

// Sorts and cuts; `whole` is what the findings are parts of.
void Rank(std::vector<Finding>& findings, double whole, size_t most) {
  const double noise = whole / 1000;
  findings.erase(std::remove_if(findings.begin(), findings.end(),
                                [&](const Finding& finding) {
                                  return !(SizeOf(finding) > 0 && SizeOf(finding) >= noise);
                                }),
                 findings.end());
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return SizeOf(a) > SizeOf(b); });
  findings.resize(std::min(most, findings.size()));
}

double SumOf(const std::vector<Finding>& findings) {
  double base = 0;
  double comparison = 0;
  for (const Finding& finding : findings) {
    base += std::fabs(finding.base);
    comparison += std::fabs(finding.comparison);
  }
  return std::max(base, comparison);
}

void Append(std::vector<Finding> more, std::vector<Finding>& all) {
  std::move(more.begin(), more.end(), std::back_inserter(all));
}

// Sums of one side by name, added to findings that both sides share.
class ByName {
 public:
  explicit ByName(std::string_view metric) : metric_(metric) {}

  size_t PlaceOf(const std::string& name) {
    const auto [place, is_new] = places_.try_emplace(name, findings_.size());
    if (is_new) {
      findings_.emplace_back();
      findings_.back().where = name;
      findings_.back().metric = metric_;
    }
    return place->second;
  }
  void Add(size_t side, const std::string& name, double amount, int64_t calls) {
    AddAt(side, PlaceOf(name), amount, calls);
  }
  void AddAt(size_t side, size_t place, double amount, int64_t calls) {
    Finding& finding = findings_[place];
    (side == 0 ? finding.base : finding.comparison) += amount;
    (side == 0 ? finding.base_calls : finding.comparison_calls) += calls;
  }
  std::vector<Finding> Take() { return std::move(findings_); }

 private:
  const std::string metric_;
  std::vector<Finding> findings_;
  std::unordered_map<std::string, size_t> places_;
};

// When steps of this name run: ends by starts, none of which lies in another.
std::map<profile::Nanoseconds, profile::Nanoseconds> TimesOf(const profile::Profile& profile,
                                                             std::string_view id) {
  std::vector<std::pair<profile::Nanoseconds, profile::Nanoseconds>> times;
  for (const profile::Step& step : profile.steps) {
    if (step.id == id && step.start < step.end) {
      times.emplace_back(step.start, step.end);
    }
  }
  std::sort(times.begin(), times.end());
  std::map<profile::Nanoseconds, profile::Nanoseconds> apart;
  for (const auto& [start, end] : times) {
    if (!apart.empty() && start <= apart.rbegin()->second) {
      apart.rbegin()->second = std::max(apart.rbegin()->second, end);
    } else {
      apart.emplace(start, end);
    }
  }
  return apart;
}

// Operators and runtime calls by name, without what they called.
std::vector<Finding> HostFindings(const SideView& base, const SideView& comparison) {
  ByName sums(kHostTime);
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const SideView& view = side == 0 ? base : comparison;
    std::vector<std::pair<profile::Nanoseconds, int64_t>> by_name(view.profile->texts.size());
    std::map<profile::Nanoseconds, profile::Nanoseconds> in_steps;  // ends by starts, apart
    if (view.step.has_value()) {
      in_steps = TimesOf(*view.profile, *view.step);
    }
    const auto in_step = [&](profile::Nanoseconds at) {
      if (!view.step.has_value()) {
        return true;
      }
      const auto after = in_steps.upper_bound(at);
      return after != in_steps.begin() && at < std::prev(after)->second;
    };
    for (const HostTree::Node& node : view.tree->nodes()) {
      if ((node.kind == Kind::kOperator || node.kind == Kind::kRuntime) && in_step(node.start)) {
        profile::Nanoseconds& sum = by_name[node.name].first;
        sum = profile::SumOfTimes(sum, node.self);
        ++by_name[node.name].second;
      }
    }
    for (profile::TextId name = 0; name < by_name.size(); ++name) {
      if (by_name[name].second > 0) {
        sums.Add(side, NeutralName(view.profile->texts[name]),
                 static_cast<double>(by_name[name].first) / kNsPerMs, by_name[name].second);
      }
    }
  }
  return sums.Take();
}

// What operators allocated, by the innermost operator; marked ranges allocate nothing themselves.
std::vector<Finding> MemoryFindings(const SideView& base, const SideView& comparison) {
  ByName sums(kMemoryMetric);
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const OperatorSide& operators = side == 0 ? *base.operators : *comparison.operators;
    const OperatorTree& tree = operators.tree();
    const profile::Profile& profile = operators.profile();
    std::unordered_map<profile::TextId, size_t> places;           // by the name in the profile
    std::vector<uint32_t> callers(tree.nodes().size(), kNoNode);  // once they were climbed to
    std::vector<uint32_t> climbed;
    for (const uint32_t node : operators.all()) {
      double mb = 0;
      for (const uint32_t index : tree.allocations(node)) {
        mb += profile.allocations[index].size_kb / kKbPerMb;
      }
      if (tree.allocations(node).empty()) {
        continue;
      }
      const auto is_operator = [&](uint32_t call) {
        return operators.operation(call).kind == profile::CallKind::kOperator &&
               !IsAnnotationName(operators.name(call));
      };
      uint32_t caller = node;
      climbed.clear();
      while (callers[caller] == kNoNode && !is_operator(caller) && tree[caller].parent != kNoNode) {
        climbed.push_back(caller);
        caller = tree[caller].parent;
      }
      caller = callers[caller] == kNoNode ? caller : callers[caller];
      for (const uint32_t below : climbed) {
        callers[below] = caller;
      }
      const profile::TextId own = profile.allocations[tree.allocations(node)[0]].name;
      const profile::TextId name = own != profile::kNoText ? own : operators.operation(caller).name;
      const auto [place, is_new] = places.try_emplace(name, 0);
      if (is_new) {
        place->second = sums.PlaceOf(
            NeutralName(own != profile::kNoText ? profile.texts[own] : operators.name(caller)));
      }
      sums.AddAt(side, place->second, mb, 1);
    }
  }
  return sums.Take();
}

std::string_view MetricOf(double TimeSplit::*share) {
  return share == &TimeSplit::computing       ? kDeviceTime
         : share == &TimeSplit::communication ? kCommunicationTime
         : share == &TimeSplit::copies        ? kCopyTime
                                              : kIdleTime;
}

void LeadWith(std::string_view metric, double direction, std::vector<Finding>& findings) {
  const auto leading = std::find_if(findings.begin(), findings.end(), [&](const Finding& finding) {
    return finding.metric == metric && (finding.comparison - finding.base) * direction > 0;
  });
  if (leading != findings.end()) {
    std::rotate(findings.begin(), leading, leading + 1);
  }
}

double DirectionOf(const TimeSplit& base, const TimeSplit& comparison) {
  return comparison.end_to_end >= base.end_to_end ? 1 : -1;
}

std::vector<Finding> DeviceFindings(const SideView& base, const SideView& comparison,
                                    const PairOptions& options, size_t most) {
  const DeviceWork& before = *base.work;
  const DeviceWork& after = *comparison.work;
  std::vector<Finding> findings = FindingsOfGroups(
      GroupComputing(before, after, ChooseGrouping(before, after), options.operator_names),
      kDeviceTime);
  if (options.overall || options.communication) {
    Append(CommunicationFindings(before, after, options), findings);
  }
  if (options.overall) {
    Append(CopyFindings(before, after), findings);
    // An NPU's overlap analysis tells idle time without what the host did meanwhile.
    if (before.profile().device == profile::Device::kGpu &&
        after.profile().device == profile::Device::kGpu) {
      Append(IdleFindings(before, after), findings);
    }
  }
  const double whole = std::max(before.split().end_to_end, after.split().end_to_end);
  Rank(findings, options.overall ? whole : SumOf(findings), most);
  return findings;
}

std::string NameOfShare(std::string_view metric, bool of_host) {
  if (metric == kDeviceTime) {
    return of_host ? "time in operators" : "computing";
  }
  return metric == kCommunicationTime ? "uncovered communication"
         : metric == kCopyTime        ? "copies"
         : of_host                    ? "time outside of operators"
                                      : "idle time of the device";
}

double ChangeOfShare(std::string_view metric, const TimeSplit& base, const TimeSplit& comparison) {
  return metric == kDeviceTime          ? comparison.computing - base.computing
         : metric == kCommunicationTime ? comparison.communication - base.communication
         : metric == kCopyTime          ? comparison.copies - base.copies
                                        : comparison.idle - base.idle;
}

}  // namespace

std::string SignedMs(double ms) {
  return std::fabs(ms) >= 0.1 || ms == 0 ? fmt::format("{:+.1f} ms", ms)
                                         : fmt::format("{:+.4f} ms", ms);
}

std::string_view LeadingShare(const TimeSplit& base, const TimeSplit& comparison) {
  const double direction = DirectionOf(base, comparison);
  double TimeSplit::*leading = &TimeSplit::computing;
  for (double TimeSplit::*share :
       {&TimeSplit::communication, &TimeSplit::copies, &TimeSplit::idle}) {
    if ((comparison.*share - base.*share) * direction >
        (comparison.*leading - base.*leading) * direction) {
      leading = share;
    }
  }
  return MetricOf(leading);
}

std::vector<Finding> FindDifferences(const SideView& base, const SideView& comparison,
                                     const PairOptions& options, size_t most) {
  std::vector<Finding> all;
  const auto has_work = [](const SideView& side) {
    return side.work != nullptr && !side.work->items().empty();
  };
  const bool on_device = has_work(base) && has_work(comparison);
  if (on_device) {
    all = DeviceFindings(base, comparison, options, most);
  }
  if (base.tree != nullptr && comparison.tree != nullptr) {
    std::vector<Finding> host =
        on_device ? HostFindings(base, comparison)
                  : FindingsOfGroups(GroupHostWork(*base.tree, *base.profile, *comparison.tree,
                                                   *comparison.profile, options.operator_names),
                                     kHostTime);
    Rank(host, SumOf(host), most);
    Append(std::move(host), all);
  }
  if (base.operators != nullptr && comparison.operators != nullptr) {
    std::vector<Finding> memory = MemoryFindings(base, comparison);
    Rank(memory, SumOf(memory), most);
    Append(std::move(memory), all);
  }
  return all;
}

void LeadWithLeadingShare(const TimeSplit& base, const TimeSplit& comparison,
                          std::vector<Finding>& findings) {
  if (!base.of_host) {
    LeadWith(LeadingShare(base, comparison), DirectionOf(base, comparison), findings);
  }
}

Verdict Judge(const TimeSplit& base, const TimeSplit& comparison, size_t base_steps,
              size_t comparison_steps, const std::vector<Finding>& findings) {
  Verdict verdict;
  if (base.end_to_end <= 0 || comparison.end_to_end <= 0) {
    return verdict;
  }
  const bool per_step = base_steps > 0 && comparison_steps > 0 && base_steps != comparison_steps;
  const double before = base.end_to_end / static_cast<double>(per_step ? base_steps : 1);
  const double after = comparison.end_to_end / static_cast<double>(per_step ? comparison_steps : 1);
  verdict.percent = (after / before - 1) * 100;
  const auto digits = [](double ms) {
    return ms >= 1 ? fmt::format("{:.1f}", ms) : fmt::format("{:.4f}", ms);
  };
  const std::string sides = fmt::format(
      "(E2E {} -> {} ms{})", digits(before), digits(after),
      per_step ? fmt::format(" per step; {} against {} steps", base_steps, comparison_steps) : "");
  if (std::fabs(verdict.percent) < kSamePercent) {
    verdict.word = "SAME";
    verdict.text = fmt::format("SAME: {:+.1f} % {}", verdict.percent, sides);
    return verdict;
  }
  verdict.word = verdict.percent > 0 ? "SLOWER" : "FASTER";
  verdict.text = fmt::format("{} by {:.1f} %", verdict.word, std::fabs(verdict.percent));
  if (!per_step) {
    const std::string_view share = LeadingShare(base, comparison);
    verdict.text += ", mostly " + NameOfShare(share, base.of_host);
    const auto cause = std::find_if(findings.begin(), findings.end(), [&](const Finding& finding) {
      return (finding.metric == share || (base.of_host && finding.metric == kHostTime)) &&
             (finding.comparison - finding.base) * verdict.percent > 0;
    });
    verdict.text +=
        cause != findings.end()
            ? fmt::format(": {} {}", cause->where, SignedMs(cause->comparison - cause->base))
            : " " + SignedMs(ChangeOfShare(share, base, comparison));
  }
  verdict.text += " " + sides;
  return verdict;
}

void TellMemory(double base_gb, double comparison_gb, Verdict& verdict,
                std::vector<Finding>& findings) {
  constexpr double kWorthTelling = 0.05;
  if (verdict.word != "SAME" || base_gb <= 0 || comparison_gb <= 0 ||
      std::fabs(comparison_gb / base_gb - 1) < kWorthTelling) {
    return;
  }
  LeadWith(kMemoryMetric, comparison_gb - base_gb, findings);
  verdict.text += fmt::format("; memory {:+.1f} % ({:.2f} -> {:.2f} GB)",
                              (comparison_gb / base_gb - 1) * 100, base_gb, comparison_gb);
  if (!findings.empty() && findings.front().metric == kMemoryMetric) {
    const Finding& cause = findings.front();
    verdict.text += fmt::format(": {} {:+.1f} MB", cause.where, cause.comparison - cause.base);
  }
}

}  // namespace msprobe::analysis::perf
