#include "src/analysis/perf/watched_operators.h"

#include <cstdint>

#include "src/base/strings.h"

namespace msprobe::analysis::perf {
namespace {

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

}  // namespace

std::vector<Watched> WatchOperators(const OperatorSide& base, const OperatorSide& comparison,
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
