#include "src/analysis/perf/operator_tree.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "src/base/strings.h"
#include "src/profile/common/host_events.h"

namespace msprobe::analysis::perf {
namespace {

using profile::Flow;
using profile::Kernel;

auto LaunchKey(const Kernel& kernel) {
  return std::make_tuple(kernel.start, kernel.process, kernel.thread);
}

struct Link {
  profile::Nanoseconds host = 0;
  uint32_t kernel = 0;
};

}  // namespace

KernelLinks::KernelLinks(const profile::Profile& side) {
  std::vector<uint32_t> by_key(side.kernels.size());
  std::iota(by_key.begin(), by_key.end(), 0U);
  const auto before = [&side](uint32_t a, uint32_t b) {
    return LaunchKey(side.kernels[a]) < LaunchKey(side.kernels[b]);
  };
  std::stable_sort(by_key.begin(), by_key.end(), before);

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

namespace {

using profile::Nanoseconds;
using profile::Profile;

template <typename Time>
std::vector<uint32_t> SortedBy(size_t count, const Time& time) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  const auto before = [&time](uint32_t a, uint32_t b) { return time(a) < time(b); };
  if (!std::is_sorted(order.begin(), order.end(), before)) {
    std::stable_sort(order.begin(), order.end(), before);
  }
  return order;
}

// The answer for every name of a profile, asked once each.
std::vector<bool> StepMarkers(const profile::Texts& texts) {
  std::vector<bool> markers(texts.size());
  for (size_t i = 0; i < markers.size(); ++i) {
    markers[i] = profile::IsStepMarker(texts[static_cast<profile::TextId>(i)]);
  }
  return markers;
}

}  // namespace

std::string_view StepOf(std::string_view marker_name) {
  return marker_name.substr(std::min(marker_name.size(), marker_name.find('#') + 1));
}

bool IsOptimizer(std::string_view operator_name) {
  constexpr std::string_view kStart = "optimizer";
  return base::EqualsIgnoringCase(operator_name.substr(0, kStart.size()), kStart);
}

OperatorTree::OperatorTree(const Profile& side, const KernelLinks& links) {
  const auto operator_start = [&side](uint32_t i) { return side.operators[i].start; };
  const auto allocation_time = [&side](uint32_t i) { return side.allocations[i].at; };
  const auto operators = SortedBy(side.operators.size(), operator_start);
  const auto records = SortedBy(side.allocations.size(), allocation_time);
  const auto is_step = StepMarkers(side.texts);

  nodes_.reserve(operators.size());
  std::vector<uint32_t> owners(records.size(), kNoNode);  // the node of each sorted record
  uint32_t last = kNoNode;
  const auto leave = [&](Nanoseconds now) {
    while (last != kNoNode && now > side.operators[nodes_[last].operation].end) {
      last = nodes_[last].parent;
    }
  };
  const auto launched = links.times();
  size_t link = 0;
  size_t record = 0;
  for (size_t next = 0; next < operators.size() || record < records.size();) {
    // At the same time operators come first.
    if (next == operators.size() ||
        (record < records.size() &&
         allocation_time(records[record]) < operator_start(operators[next]))) {
      leave(allocation_time(records[record]));
      owners[record++] = last;
      continue;
    }
    Node node;
    node.operation = operators[next++];
    const profile::Operator& operation = side.operators[node.operation];
    leave(operation.start);
    node.parent = last;
    node.is_step = is_step[operation.name];
    while (link < launched.size() && launched[link] < operation.start) {
      ++link;
    }
    if (link < launched.size() && launched[link] == operation.start && operation.launches) {
      node.link = static_cast<uint32_t>(link);
      node.kernel_count = static_cast<uint32_t>(links.kernels(link).size());
    }
    last = static_cast<uint32_t>(nodes_.size());
    if (node.parent == kNoNode) {
      roots_.push_back(last);
    } else {
      ++nodes_[node.parent].child_count;
    }
    nodes_.push_back(node);
  }

  for (const uint32_t owner : owners) {
    if (owner != kNoNode) {
      ++nodes_[owner].allocation_count;
    }
  }
  uint32_t child = 0;
  uint32_t allocation = 0;
  for (Node& node : nodes_) {
    node.first_child = child;
    node.first_allocation = allocation;
    child += node.child_count;
    allocation += node.allocation_count;
    node.child_count = 0;  // counted again while the lists fill
    node.allocation_count = 0;
  }
  children_.resize(child);
  allocations_.resize(allocation);
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].parent != kNoNode) {
      Node& parent = nodes_[nodes_[i].parent];
      children_[parent.first_child + parent.child_count++] = i;
    }
  }
  for (size_t i = 0; i < owners.size(); ++i) {
    if (owners[i] != kNoNode) {
      Node& owner = nodes_[owners[i]];
      allocations_[owner.first_allocation + owner.allocation_count++] = records[i];
    }
  }
  for (size_t i = nodes_.size(); i-- > 0;) {
    if (nodes_[i].parent != kNoNode) {
      nodes_[nodes_[i].parent].kernel_count += nodes_[i].kernel_count;
    }
  }
}

OperatorSide::OperatorSide(const Profile& profile, const std::optional<std::string>& step)
    : profile_(&profile), links_(profile), tree_(profile, links_) {
  // Databases were filtered while they were read, and need not hold markers.
  const auto nodes = tree_.nodes();
  const bool has_markers =
      std::any_of(nodes.begin(), nodes.end(), [](const auto& node) { return node.is_step; });
  const bool filter =
      step.has_value() && (has_markers || profile.source != profile::Source::kDatabase);
  for (const uint32_t root : tree_.roots()) {
    if (!tree_[root].is_step) {
      if (!filter) {
        top_.push_back(root);
      }
    } else if (!filter || StepOf(name(root)) == *step) {
      const auto inside = tree_.children(root);
      top_.insert(top_.end(), inside.begin(), inside.end());
    }
  }
  if (!filter) {
    for (uint32_t i = 0; i < nodes.size(); ++i) {
      if (!nodes[i].is_step) {
        all_.push_back(i);
      }
    }
    return;
  }
  std::vector<uint32_t> level(top_.begin(), top_.end());
  for (size_t next = 0; next < level.size(); ++next) {
    const uint32_t current = level[next];
    if (!tree_[current].is_step) {
      all_.push_back(current);
    }
    const auto below = tree_.children(current);
    level.insert(level.end(), below.begin(), below.end());
  }
}

}  // namespace msprobe::analysis::perf
