#include "src/analysis/perf/operator_tree.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <tuple>

#include "src/base/strings.h"
#include "src/profile/common/host_events.h"

namespace msprobe::analysis::perf {
namespace {

using profile::Flow;
using profile::Kernel;
using profile::Profile;

auto LaunchKey(const Kernel& kernel) {
  return std::make_tuple(kernel.start, kernel.process, kernel.thread);
}

struct Link {
  profile::Nanoseconds host = 0;
  uint32_t kernel = 0;
};

}  // namespace

KernelLinks::KernelLinks(const Profile& side) {
  const std::vector<uint32_t> by_key =
      OrderBy(side.kernels.size(), [&](uint32_t i) { return LaunchKey(side.kernels[i]); });
  std::vector<Link> links;
  links.reserve(side.flows.size());
  for (const Flow& flow : side.flows) {
    const auto key = std::make_tuple(flow.end, flow.end_process, flow.end_thread);
    const auto after = std::upper_bound(by_key.begin(), by_key.end(), key,
                                        [&side](const auto& wanted, uint32_t other) {
                                          return wanted < LaunchKey(side.kernels[other]);
                                        });
    if (after != by_key.begin() && LaunchKey(side.kernels[*(after - 1)]) == key) {
      links.push_back({flow.start, *(after - 1)});
    }
  }
  std::stable_sort(links.begin(), links.end(),
                   [](const Link& a, const Link& b) { return a.host < b.host; });

  kernels_.reserve(links.size());
  for (const Link& link : links) {
    if (times_.empty() || times_.back() != link.host) {
      times_.push_back(link.host);
      begins_.push_back(static_cast<uint32_t>(kernels_.size()));
    }
    kernels_.push_back(link.kernel);
  }
  begins_.push_back(static_cast<uint32_t>(kernels_.size()));
}

uint32_t KernelLinks::Find(profile::Nanoseconds host_time) const {
  const auto found = std::lower_bound(times_.begin(), times_.end(), host_time);
  if (found == times_.end() || *found != host_time) {
    return kNone;
  }
  return static_cast<uint32_t>(found - times_.begin());
}

std::string_view StepOf(std::string_view marker_name) {
  return marker_name.substr(std::min(marker_name.size(), marker_name.find('#') + 1));
}

bool IsOptimizer(std::string_view operator_name) {
  constexpr std::string_view kStart = "optimizer";
  return base::EqualsIgnoringCase(operator_name.substr(0, kStart.size()), kStart);
}

OperatorTree::OperatorTree(const Profile& side, const KernelLinks& links) {
  std::vector<NestedIntervals::Interval> intervals;
  intervals.reserve(side.operators.size());
  for (const profile::Operator& operation : side.operators) {
    intervals.push_back({operation.start, operation.end});
  }
  const std::vector<uint32_t> records =
      OrderBy(side.allocations.size(), [&](uint32_t i) { return side.allocations[i].at; });
  std::vector<profile::Nanoseconds> times;
  times.reserve(records.size());
  for (const uint32_t record : records) {
    times.push_back(side.allocations[record].at);
  }
  calls_ = NestedIntervals(intervals, times, /*max_depth=*/UINT32_MAX);
  const auto nodes = calls_.nodes();
  const auto placed = calls_.placed();
  allocations_ = Lists(
      nodes.size(), placed.size(), [&](size_t i) { return placed[i].node; },
      [&](size_t i) { return records[placed[i].marker]; });

  launches_.resize(nodes.size());
  size_t link = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    while (link < links.times().size() && links.times()[link] < nodes[i].start) {
      ++link;
    }
    if (link < links.times().size() && links.times()[link] == nodes[i].start &&
        side.operators[nodes[i].interval].launches) {
      launches_[i] = {static_cast<uint32_t>(link),
                      static_cast<uint32_t>(links.kernels(link).size())};
    }
  }
  for (size_t i = nodes.size(); i-- > 0;) {
    if (nodes[i].parent != kNoNode) {
      launches_[nodes[i].parent].kernel_count += launches_[i].kernel_count;
    }
  }
}

OperatorSide::OperatorSide(const Profile& profile, const std::optional<std::string>& step)
    : profile_(&profile), links_(profile), tree_(profile, links_) {
  std::vector<bool> step_names(profile.texts.size());
  for (profile::TextId name = 0; name < step_names.size(); ++name) {
    step_names[name] = profile::IsStepMarker(profile.texts[name]);
  }
  std::vector<uint32_t> all(tree_.size());
  std::iota(all.begin(), all.end(), 0U);
  const auto is_step = [&](uint32_t node) { return step_names[operation(node).name]; };
  // Databases were filtered while they were read, and need not hold markers.
  const bool filter = step.has_value() && (profile.source != profile::Source::kDatabase ||
                                           std::any_of(all.begin(), all.end(), is_step));
  for (const uint32_t root : tree_.roots()) {
    if (!is_step(root)) {
      if (!filter) {
        top_.push_back(root);
      }
    } else if (!filter || StepOf(name(root)) == *step) {
      const auto inside = tree_.children(root);
      top_.insert(top_.end(), inside.begin(), inside.end());
    }
  }
  if (filter) {
    all = top_;
    for (size_t next = 0; next < all.size(); ++next) {
      const auto below = tree_.children(all[next]);
      all.insert(all.end(), below.begin(), below.end());
    }
  }
  std::copy_if(all.begin(), all.end(), std::back_inserter(all_),
               [&](uint32_t node) { return !is_step(node); });
}

}  // namespace msprobe::analysis::perf
