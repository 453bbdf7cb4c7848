#include "src/analysis/perf/watched_operators.h"

#include <algorithm>
#include <cstdint>

#include "src/base/strings.h"

namespace msprobe::analysis::perf {
namespace {

using Kind = HostTree::Kind;

struct Sum {
  double ms = 0;
  int64_t calls = 0;
};

// Names repeat: each is held against the pattern once.
std::vector<bool> MatchTexts(const profile::Profile& side, std::string_view pattern) {
  std::vector<bool> matches(side.texts.size());
  for (profile::TextId id = 0; id < matches.size(); ++id) {
    matches[id] = base::GlobMatch(pattern, side.texts[id]);
  }
  return matches;
}

Sum Measure(const OperatorSide& side, std::string_view pattern) {
  const std::vector<bool> matching_texts = MatchTexts(side.profile(), pattern);
  Sum sum;
  std::vector<uint32_t> queue;
  // Whether the operator, or one that it lies in, matches; those are numbered before it.
  std::vector<bool> covered(side.tree().nodes().size());
  std::vector<bool> wanted(side.tree().nodes().size());
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
  const std::vector<bool> matching_texts = MatchTexts(profile, pattern);
  const auto in_step = [&](profile::Nanoseconds at) {
    return !step.has_value() ||
           std::any_of(profile.steps.begin(), profile.steps.end(), [&](const auto& known) {
             return known.id == *step && known.start <= at && at < known.end;
           });
  };
  Sum sum;
  const auto nodes = work.tree().nodes();
  // Whether the node, or one that it lies in, matches; those stand before it.
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

}  // namespace msprobe::analysis::perf
