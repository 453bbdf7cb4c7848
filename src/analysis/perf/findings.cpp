#include "src/analysis/perf/findings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/perf/communication.h"
#include "src/analysis/perf/device_work.h"
#include "src/analysis/perf/kernel_compare.h"
#include "src/analysis/perf/options.h"
#include "src/analysis/perf/pair_comparison.h"
#include "src/analysis/perf/sheet.h"
#include "src/analysis/perf/work_groups.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"
#include "src/profile/common/values.h"

namespace msprobe::analysis::perf {
namespace {

using profile::Nanoseconds;
using profile::TextId;
using Kind = HostTree::Kind;

class Causes {
 public:
  explicit Causes(const DeviceWork& work) : work_(work), tree_(work.tree()) { FindLoaders(); }

  void AddGap(Nanoseconds from, Nanoseconds to, const WorkItem& next) {
    if (!next.has_launch) {
      Named("work whose launch is not in the profile", to - from);
      return;
    }
    const Nanoseconds launched = std::clamp(next.launched, from, to);
    if (launched > from) {
      tree_.VisitStretches(next.process, next.thread, from, launched,
                           [this](uint32_t node, Nanoseconds ns) { AddStretch(node, ns); });
      if (to > launched) {
        Named("launch latency", to - launched);
      }
    } else {
      Named("the device itself, between work launched in time", to - from);
    }
  }

  std::map<std::string, Amount> Take() {
    std::map<std::string, Amount> result;
    for (const Sum& sum : sums_.items()) {
      Amount& amount = result[LabelOf(sum.node)];
      amount.ms += static_cast<double>(sum.ns) / kNsPerMs;
      amount.calls += sum.count;
    }
    for (const auto& [label, amount] : named_) {
      Amount& known = result[std::string(label)];
      known.ms += amount.ms;
      known.calls += amount.calls;
    }
    return result;
  }

 private:
  struct Sum {
    uint32_t node = HostTree::kNone;  // the first of its name
    Nanoseconds ns = 0;
    int64_t count = 0;
  };

  std::string_view NameOf(uint32_t node) const { return work_.profile().texts[tree_[node].name]; }

  // Whatever runs inside of a data loader is the data loader's.
  void FindLoaders() {
    const auto nodes = tree_.nodes();
    const std::vector<bool> is_loader = NamesThat(work_.profile().texts, [](std::string_view name) {
      return name.find("DataLoader") != std::string_view::npos;
    });
    if (std::find(is_loader.begin(), is_loader.end(), true) == is_loader.end()) {
      return;
    }
    loaders_.assign(nodes.size(), HostTree::kNone);
    for (uint32_t node = 0; node < nodes.size(); ++node) {
      const uint32_t parent = nodes[node].parent;
      loaders_[node] = parent != HostTree::kNone && loaders_[parent] != HostTree::kNone
                           ? loaders_[parent]
                       : is_loader[nodes[node].name] ? node
                                                     : HostTree::kNone;
    }
  }

  void AddStretch(uint32_t node, Nanoseconds ns) {
    if (node != HostTree::kNone && !loaders_.empty() && loaders_[node] != HostTree::kNone) {
      node = loaders_[node];
    }
    uint64_t key = UINT64_MAX;
    if (node != HostTree::kNone && tree_[node].kind != Kind::kStep) {
      TextId around = profile::kNoText;
      if (tree_[node].kind == Kind::kRuntime) {
        const uint32_t caller = tree_.OperatorOf(tree_[node].parent);
        around = caller == HostTree::kNone ? profile::kNoText : tree_[caller].name;
      }
      key = uint64_t{tree_[node].name} << 32U | around;
    }
    Sum& sum = sums_.At(key, [&] { return Sum{node, 0, 0}; });
    sum.ns += ns;
    ++sum.count;
  }

  void Named(std::string_view label, Nanoseconds ns) {
    Amount& amount = named_[label];
    amount.ms += static_cast<double>(ns) / kNsPerMs;
    ++amount.calls;
  }

  std::string LabelOf(uint32_t node) const {
    if (node == HostTree::kNone || tree_[node].kind == Kind::kStep) {
      return "python code outside of operators";
    }
    const std::string name = NeutralName(NameOf(node));
    switch (tree_[node].kind) {
      case Kind::kRuntime: {
        const uint32_t caller = tree_.OperatorOf(tree_[node].parent);
        return caller == HostTree::kNone
                   ? name
                   : name + " in " + base::Shortened(NameOf(caller), kLongestNameAround);
      }
      case Kind::kAnnotation:
        return name.find("DataLoader") != std::string::npos ? name : "python code in " + name;
      case Kind::kModule:
      case Kind::kPython:
        return "python: " + name;
      default:
        return name + " on the host";
    }
  }

  const DeviceWork& work_;
  const HostTree& tree_;
  std::vector<uint32_t> loaders_;  // of each node, the data loader that it runs in
  Ordered<uint64_t, Sum> sums_;
  std::map<std::string_view, Amount> named_;
};

}  // namespace

std::map<std::string, Amount> IdleTimeByCause(const DeviceWork& work) {
  Causes causes(work);
  const auto items = work.items();
  const auto busy = work.busy().intervals();
  size_t next = 0;
  for (size_t i = 1; i < busy.size(); ++i) {
    const Nanoseconds from = busy[i - 1].end;
    const Nanoseconds to = busy[i].start;
    while (next < items.size() && items[next].start < to) {
      ++next;
    }
    const WorkItem* first = &items[next];
    for (size_t other = next; other < items.size() && items[other].start == to; ++other) {
      if (items[other].has_launch) {
        first = &items[other];
        break;
      }
    }
    causes.AddGap(from, to, *first);
  }
  return causes.Take();
}

namespace {

// ---- Collectives, copies and idle time ----

// Uncovered time, and what all of it took.
struct Waits {
  Amounts uncovered;
  Amounts whole;
};

// Copies by their names and the operators that they lie in.
class LabelsOfCopies {
 public:
  explicit LabelsOfCopies(const DeviceWork& work) : work_(work) {}

  const std::string& Of(const WorkItem& item) {
    const uint32_t caller = work_.tree().OperatorOf(item.node);
    const TextId around = caller == HostTree::kNone ? profile::kNoText : work_.tree()[caller].name;
    const auto [known, is_new] =
        labels_.try_emplace(uint64_t{item.name} << 32U | around, std::string());
    if (is_new) {
      known->second = ShortKernelName(NeutralName(work_.profile().texts[item.name]));
      if (caller != HostTree::kNone) {
        known->second +=
            " in " + base::Shortened(work_.profile().texts[around], kLongestNameAround);
      }
    }
    return known->second;
  }

 private:
  const DeviceWork& work_;
  std::unordered_map<uint64_t, std::string> labels_;
};

// Sums by label; `labels`, of each side: Of(item).
template <typename Labels>
std::map<std::string, Waits> SumWaits(const DeviceWork& base, const DeviceWork& comparison,
                                      WorkKind kind, double TimeSplit::*share,
                                      std::array<Labels, 2> labels) {
  std::map<std::string, Waits> sums;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const DeviceWork& work = side == 0 ? base : comparison;
    double uncovered_us = 0;
    for (const WorkItem& item : work.items()) {
      uncovered_us += item.kind == kind ? item.uncovered_us : 0;
    }
    // Work that runs at the same time shares the time that it takes together.
    const double scale = uncovered_us > 0 ? work.split().*share * kUsPerMs / uncovered_us : 0;
    for (const WorkItem& item : work.items()) {
      if (item.kind != kind) {
        continue;
      }
      Waits& waits = sums[labels[side].Of(item)];
      waits.uncovered[side].ms += item.uncovered_us * scale / kUsPerMs;
      waits.whole[side].ms += item.us / kUsPerMs;
      ++waits.uncovered[side].calls;
    }
  }
  return sums;
}

Finding WaitFinding(const std::string& label, const Waits& waits, std::string_view metric) {
  Finding finding = MakeFinding(label, metric, waits.uncovered);
  if (waits.whole[0].ms - finding.base > finding.base / 100 ||
      waits.whole[1].ms - finding.comparison > finding.comparison / 100) {
    finding.note = fmt::format("{:.3f} -> {:.3f} ms with what is hidden behind other work",
                               waits.whole[0].ms, waits.whole[1].ms);
  }
  return finding;
}

// Kernels that graphs launched, of all.
double GraphShare(const DeviceWork& work) {
  size_t by_graph = 0;
  for (const WorkItem& item : work.items()) {
    by_graph += item.by_graph ? 1 : 0;
  }
  return work.items().empty()
             ? 0
             : static_cast<double>(by_graph) / static_cast<double>(work.items().size());
}

int64_t CountLaunches(const DeviceWork& work) {
  int64_t count = 0;
  const WorkItem* last = nullptr;
  for (const WorkItem& item : work.items()) {
    const bool same_graph = item.by_graph && last != nullptr && last->launched == item.launched;
    count += item.has_launch && !same_graph ? 1 : 0;
    last = &item;
  }
  return count;
}

// By kind of collective (or, where the options ask for it, by kernel); the time that no computing
// hides, in ms. Unsorted, as the two below.
std::vector<Finding> CommunicationFindings(const DeviceWork& base, const DeviceWork& comparison,
                                           const PairOptions& options) {
  using Kinds = KindsOfCollectives;
  const bool by_kind = options.match_collectives_by_kind;
  const auto sums =
      SumWaits(base, comparison, WorkKind::kCommunication, &TimeSplit::communication,
               std::array<Kinds, 2>{Kinds(base, by_kind), Kinds(comparison, by_kind)});
  std::vector<Finding> findings;
  for (const auto& [label, waits] : sums) {
    Finding finding = WaitFinding(label, waits, kCommunicationTime);
    const auto& [before, after] = waits.whole;
    if (finding.base_calls == finding.comparison_calls && after.ms > before.ms * 1.05) {
      finding.note += finding.note.empty() ? "" : "; ";
      finding.note +=
          "the same calls take longer: slower links, or waiting for another rank (its profile "
          "shows which)";
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

// By kind of copy or fill and the operator that asked for it; the time that nothing else hides.
std::vector<Finding> CopyFindings(const DeviceWork& base, const DeviceWork& comparison) {
  using Labels = LabelsOfCopies;
  const auto sums = SumWaits(base, comparison, WorkKind::kCopy, &TimeSplit::copies,
                             std::array<Labels, 2>{Labels(base), Labels(comparison)});
  std::vector<Finding> findings;
  for (const auto& [label, waits] : sums) {
    findings.push_back(WaitFinding(label, waits, kCopyTime));
  }
  return findings;
}

// By what the host did, in the thread that launched the next work, while the device had none.
std::vector<Finding> IdleFindings(const DeviceWork& base, const DeviceWork& comparison) {
  std::map<std::string, Amounts> sums;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    for (const auto& [label, amount] : IdleTimeByCause(side == 0 ? base : comparison)) {
      sums[label][side] = amount;
    }
  }
  std::vector<Finding> findings;
  Finding all = MakeFinding("", kIdleTime,
                            {{{base.split().idle, CountLaunches(base)},
                              {comparison.split().idle, CountLaunches(comparison)}}});
  double largest = 0;
  std::vector<std::pair<double, std::string>> ranked;
  for (const auto& [label, amounts] : sums) {
    const double change = Change(amounts);
    if (change * (all.comparison - all.base) > 0) {
      largest = std::max(largest, std::fabs(change));
      ranked.emplace_back(-std::fabs(change), label);
    }
    findings.push_back(MakeFinding(label, kIdleTime, amounts));
  }
  // A cause with this share of the change is a finding of its own.
  constexpr double kLeadingCause = 0.6;
  const double graphs = GraphShare(comparison) - GraphShare(base);
  constexpr double kManyKernels = 0.2;
  if (std::fabs(graphs) >= kManyKernels) {
    all.where = graphs < 0 ? "launches one by one instead of by graphs"
                           : "launches by graphs instead of one by one";
  } else if (largest < kLeadingCause * std::fabs(all.comparison - all.base)) {
    all.where = "the host, which launches too slowly";
  } else {
    return findings;
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> causes;
  for (size_t i = 0; i < std::min<size_t>(3, ranked.size()); ++i) {
    causes.push_back(ranked[i].second);
  }
  all.note = fmt::format("launches of work {} -> {}; meanwhile the host was in: {}", all.base_calls,
                         all.comparison_calls, base::Join(causes, ", "));
  findings.push_back(std::move(all));
  return findings;
}

struct Sum {
  double ms = 0;
  int64_t calls = 0;
};

Sum Measure(const OperatorSide& side, std::string_view pattern) {
  const auto matches_pattern = [&](std::string_view name) {
    return base::GlobMatch(pattern, name);
  };
  const std::vector<bool> matching_texts = NamesThat(side.profile().texts, matches_pattern);
  Sum sum;
  std::vector<uint32_t> queue;
  // Whether the operator, or one that it lies in, matches; those are numbered before it.
  std::vector<bool> covered(side.tree().size());
  std::vector<bool> wanted(side.tree().size());
  for (const uint32_t node : side.all()) {
    wanted[node] = true;
  }
  for (uint32_t node = 0; node < covered.size(); ++node) {
    const uint32_t parent = side.tree()[node].parent;
    const bool inside = parent != kNoNode && covered[parent];
    const bool matches = wanted[node] && matching_texts[side.operation(node).name];
    covered[node] = inside || matches;
    if (matches && !inside) {
      side.VisitKernels(
          node, queue, [&](const profile::Kernel& kernel) { sum.ms += kernel.duration_us / 1000; });
      ++sum.calls;
    }
  }
  return sum;
}

Sum Measure(const DeviceWork& work, const std::optional<std::string>& step,
            std::string_view pattern) {
  const profile::Profile& profile = work.profile();
  const auto matches_pattern = [&](std::string_view name) {
    return base::GlobMatch(pattern, name);
  };
  const std::vector<bool> matching_texts = NamesThat(profile.texts, matches_pattern);
  const auto in_step = [&](profile::Nanoseconds at) {
    return !step.has_value() ||
           std::any_of(profile.steps.begin(), profile.steps.end(), [&](const auto& known) {
             return known.id == *step && known.start <= at && at < known.end;
           });
  };
  Sum sum;
  const auto nodes = work.tree().nodes();
  // Whether the node, or one around it (which has a lower number), matches.
  std::vector<bool> covered(nodes.size());
  for (uint32_t node = 0; node < nodes.size(); ++node) {
    const HostTree::Node& known = nodes[node];
    const bool inside = known.parent != HostTree::kNone && covered[known.parent];
    const bool matches = matching_texts[known.name] && known.kind != Kind::kPython &&
                         known.kind != Kind::kModule && in_step(known.start);
    covered[node] = inside || matches;
    sum.calls += matches && !inside ? 1 : 0;
  }
  for (const WorkItem& item : work.items()) {
    if (item.node != HostTree::kNone && covered[item.node]) {
      sum.ms += item.us / 1000;
    }
  }
  return sum;
}

Sum Measure(const WatchedSide& side, std::string_view pattern) {
  return side.work != nullptr ? Measure(*side.work, side.step, pattern)
                              : Measure(*side.operators, pattern);
}

}  // namespace

std::vector<Watched> WatchOperators(const WatchedSide& base, const WatchedSide& comparison,
                                    std::span<const std::string> patterns) {
  std::vector<Watched> result;
  for (const std::string& pattern : patterns) {
    const Sum left = Measure(base, pattern);
    const Sum right = Measure(comparison, pattern);
    result.push_back({pattern, left.ms, right.ms, left.calls, right.calls});
  }
  return result;
}

namespace {

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
  // There was one for each name: what is left does not keep the room of all.
  const auto kept = findings.begin() + static_cast<std::ptrdiff_t>(std::min(most, findings.size()));
  findings = std::vector<Finding>(std::move_iterator(findings.begin()), std::move_iterator(kept));
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

// Sums by name that become a finding each.
class SumsByName {
 public:
  explicit SumsByName(std::string_view metric) : metric_(metric) {}

  size_t PlaceOf(const std::string& name) {
    return findings_.PlaceOf(name, [&] { return MakeFinding(name, metric_, {}); });
  }
  void Add(size_t side, size_t place, double amount, int64_t calls) {
    Finding& finding = findings_[place];
    (side == 0 ? finding.base : finding.comparison) += amount;
    (side == 0 ? finding.base_calls : finding.comparison_calls) += calls;
  }
  std::vector<Finding> Take() { return std::move(findings_.items()); }

 private:
  const std::string_view metric_;
  Ordered<std::string, Finding> findings_;
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
  SumsByName sums(kHostTime);
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
        sums.Add(side, sums.PlaceOf(NeutralName(view.profile->texts[name])),
                 static_cast<double>(by_name[name].first) / kNsPerMs, by_name[name].second);
      }
    }
  }
  return sums.Take();
}

// Allocations by the innermost operator; marked ranges allocate nothing themselves.
std::vector<Finding> MemoryFindings(const SideView& base, const SideView& comparison) {
  SumsByName sums(kMemoryMetric);
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const OperatorSide& operators = side == 0 ? *base.operators : *comparison.operators;
    const OperatorTree& tree = operators.tree();
    const profile::Profile& profile = operators.profile();
    std::unordered_map<profile::TextId, size_t> places;   // by the name in the profile
    std::vector<uint32_t> callers(tree.size(), kNoNode);  // once they were climbed to
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
      sums.Add(side, place->second, mb, 1);
    }
  }
  return sums.Take();
}

// The shares of the end-to-end time, with the metric of their findings and how people call them.
struct ShareOfTime {
  double TimeSplit::*part;
  std::string_view metric;
  std::string_view name;
  std::string_view name_on_host;
};
constexpr std::array<ShareOfTime, 4> kSharesOfTime = {
    {{&TimeSplit::computing, kDeviceTime, "computing", "time in operators"},
     {&TimeSplit::communication, kCommunicationTime, "uncovered communication",
      "uncovered communication"},
     {&TimeSplit::copies, kCopyTime, "copies", "copies"},
     {&TimeSplit::idle, kIdleTime, "idle time of the device", "time outside of operators"}}};

// The share whose change goes furthest in the direction in which the whole went; the first of
// equal ones.
const ShareOfTime& LeadingShareOf(const TimeSplit& base, const TimeSplit& comparison) {
  const double direction = comparison.end_to_end >= base.end_to_end ? 1 : -1;
  const auto change = [&](const ShareOfTime& share) {
    return (comparison.*share.part - base.*share.part) * direction;
  };
  return *std::max_element(
      kSharesOfTime.begin(), kSharesOfTime.end(),
      [&](const ShareOfTime& a, const ShareOfTime& b) { return change(a) < change(b); });
}

void LeadWith(std::string_view metric, double direction, std::vector<Finding>& findings) {
  const auto leading = std::find_if(findings.begin(), findings.end(), [&](const Finding& finding) {
    return finding.metric == metric && (finding.comparison - finding.base) * direction > 0;
  });
  if (leading != findings.end()) {
    std::rotate(findings.begin(), leading, leading + 1);
  }
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
    // An NPU's overlap analysis does not say what the host did in idle time.
    if (before.profile().device == profile::Device::kGpu &&
        after.profile().device == profile::Device::kGpu) {
      Append(IdleFindings(before, after), findings);
    }
  }
  const double whole = std::max(before.split().end_to_end, after.split().end_to_end);
  Rank(findings, options.overall ? whole : SumOf(findings), most);
  return findings;
}

}  // namespace

std::string SignedMs(double ms) {
  return std::fabs(ms) >= 0.1 || ms == 0 ? fmt::format("{:+.1f} ms", ms)
                                         : fmt::format("{:+.4f} ms", ms);
}

std::string_view LeadingShare(const TimeSplit& base, const TimeSplit& comparison) {
  return LeadingShareOf(base, comparison).metric;
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
    LeadWith(LeadingShare(base, comparison), comparison.end_to_end >= base.end_to_end ? 1 : -1,
             findings);
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
    const ShareOfTime& share = LeadingShareOf(base, comparison);
    verdict.text += ", mostly " + std::string(base.of_host ? share.name_on_host : share.name);
    const auto cause = std::find_if(findings.begin(), findings.end(), [&](const Finding& finding) {
      return (finding.metric == share.metric || (base.of_host && finding.metric == kHostTime)) &&
             (finding.comparison - finding.base) * verdict.percent > 0;
    });
    verdict.text +=
        cause != findings.end()
            ? fmt::format(": {} {}", cause->where, SignedMs(cause->comparison - cause->base))
            : " " + SignedMs(comparison.*share.part - base.*share.part);
  }
  verdict.text += " " + sides;
  return verdict;
}

void ReportMemory(double base_gb, double comparison_gb, Verdict& verdict,
                  std::vector<Finding>& findings) {
  constexpr double kReportedShare = 0.05;
  if (verdict.word != "SAME" || base_gb <= 0 || comparison_gb <= 0 ||
      std::fabs(comparison_gb / base_gb - 1) < kReportedShare) {
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
