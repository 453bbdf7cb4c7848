#include "src/analysis/perf/operator_match.h"

#include <algorithm>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::analysis::perf {
namespace {

using profile::TextId;

using Nodes = std::vector<uint32_t>;

constexpr uint32_t kUnnumbered = UINT32_MAX;

uint32_t Numbered(std::unordered_map<std::string_view, uint32_t>& numbers, std::string_view text) {
  return numbers.emplace(text, static_cast<uint32_t>(numbers.size())).first->second;
}

class OperatorMatcher {
 public:
  OperatorMatcher(const OperatorSide& base, const OperatorSide& comparison,
                  const PairOptions& options)
      : base_(base),
        comparison_(comparison),
        options_(options),
        keys_(base.profile(), comparison.profile(), options) {}

  std::vector<AlignedPair> Match();
  void Warn(std::vector<std::string>& warnings) const;

 private:
  void Pair(std::span<const uint32_t> base, std::span<const uint32_t> comparison,
            std::vector<AlignedPair>& pairs);
  void PairSegments(const std::vector<Nodes>& base, const std::vector<Nodes>& comparison);
  bool GivesWay(const AlignedPair& pair) const;
  void DrillDown();

  const OperatorSide& base_;
  const OperatorSide& comparison_;
  const PairOptions& options_;
  OperatorKeys keys_;
  std::vector<AlignedPair> pairs_;
  std::vector<uint32_t> base_keys_;  // scratch
  std::vector<uint32_t> comparison_keys_;
  size_t longest_base_ = 0;  // of the stretches that were not aligned exactly
  size_t longest_comparison_ = 0;
};

void OperatorMatcher::Pair(std::span<const uint32_t> base, std::span<const uint32_t> comparison,
                           std::vector<AlignedPair>& pairs) {
  base_keys_.clear();
  for (const uint32_t node : base) {
    base_keys_.push_back(keys_.Base(base_.operation(node)));
  }
  comparison_keys_.clear();
  for (const uint32_t node : comparison) {
    comparison_keys_.push_back(keys_.Comparison(comparison_.operation(node)));
  }
  const Aligned aligned = Align(base_keys_, comparison_keys_, options_.alignment);
  for (const AlignedPair& pair : aligned.pairs) {
    pairs.push_back({pair.base == kUnmatched ? kUnmatched : base[pair.base],
                     pair.comparison == kUnmatched ? kUnmatched : comparison[pair.comparison]});
  }
  if (!aligned.is_exact) {
    longest_base_ = std::max(longest_base_, base.size());
    longest_comparison_ = std::max(longest_comparison_, comparison.size());
  }
}

// Runs of top operators that are all on the thread of backward passes or all off it.
std::vector<Nodes> SegmentsOf(const OperatorSide& side, bool& starts_backward) {
  Nodes sorted(side.top().begin(), side.top().end());
  std::stable_sort(sorted.begin(), sorted.end(), [&side](uint32_t a, uint32_t b) {
    return side.operation(a).start < side.operation(b).start;
  });
  const TextId thread = *side.profile().backward_thread;
  std::vector<Nodes> segments;
  bool last = false;
  for (const uint32_t node : sorted) {
    const bool backward = side.operation(node).thread == thread;
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

void OperatorMatcher::PairSegments(const std::vector<Nodes>& base,
                                   const std::vector<Nodes>& comparison) {
  const Nodes none;
  for (size_t i = 0; i < std::max(base.size(), comparison.size()); ++i) {
    Pair(i < base.size() ? base[i] : none, i < comparison.size() ? comparison[i] : none, pairs_);
  }
}

bool OperatorMatcher::GivesWay(const AlignedPair& pair) const {
  if (pair.base == kUnmatched || pair.comparison == kUnmatched) {
    return false;
  }
  const auto& base = base_.tree()[pair.base];
  const auto& comparison = comparison_.tree()[pair.comparison];
  return base.child_count > 0 && comparison.child_count > 0 &&
         std::max(base.kernel_count, comparison.kernel_count) > *options_.max_kernels;
}

void OperatorMatcher::DrillDown() {
  std::vector<AlignedPair> waiting(pairs_.rbegin(), pairs_.rend());  // the next on top
  std::vector<AlignedPair> inside;
  pairs_.clear();
  while (!waiting.empty()) {
    const AlignedPair pair = waiting.back();
    waiting.pop_back();
    if (!GivesWay(pair)) {
      pairs_.push_back(pair);
      continue;
    }
    inside.clear();
    Pair(base_.tree().children(pair.base), comparison_.tree().children(pair.comparison), inside);
    waiting.insert(waiting.end(), inside.rbegin(), inside.rend());
  }
}

std::vector<AlignedPair> OperatorMatcher::Match() {
  if (!options_.details) {
    for (const uint32_t node : base_.top()) {
      pairs_.push_back({node, kUnmatched});
    }
    for (const uint32_t node : comparison_.top()) {
      pairs_.push_back({kUnmatched, node});
    }
    return std::move(pairs_);
  }
  if (!base_.profile().backward_thread || !comparison_.profile().backward_thread) {
    Pair(base_.top(), comparison_.top(), pairs_);
  } else {
    bool base_backward = false;
    bool comparison_backward = false;
    auto base = SegmentsOf(base_, base_backward);
    auto comparison = SegmentsOf(comparison_, comparison_backward);
    if (!base.empty() && !comparison.empty() && base_backward != comparison_backward) {
      // One side began elsewhere: its first segment has no partner.
      if (base.size() > comparison.size()) {
        comparison.emplace(comparison.begin());
      } else {
        base.emplace(base.begin());
      }
    }
    PairSegments(base, comparison);
  }
  if (options_.max_kernels.has_value()) {
    DrillDown();
  }
  return std::move(pairs_);
}

void OperatorMatcher::Warn(std::vector<std::string>& warnings) const {
  if (longest_base_ > 0) {
    warnings.push_back(fmt::format(
        "{} operators of the base against {} of the comparison are too many for an exact "
        "alignment: they were split at matching runs of operators, and aligned in between",
        base::FormatCount(longest_base_), base::FormatCount(longest_comparison_)));
  }
}

}  // namespace

OperatorKeys::OperatorKeys(const profile::Profile& base, const profile::Profile& comparison,
                           const PairOptions& options)
    : options_(options) {
  sides_[0].profile = &base;
  sides_[1].profile = &comparison;
  for (KnownNumbers& side : sides_) {
    side.names.assign(side.profile->texts.size(), kUnnumbered);
    side.shapes.assign(options.use_input_shape ? side.names.size() : 0, kUnnumbered);
  }
}

std::string_view OperatorKeys::Renamed(std::string_view name) const {
  if (options_.operator_names.empty()) {
    return name;
  }
  const auto found = options_.operator_names.find(std::string(name));
  return found == options_.operator_names.end() ? name : std::string_view(found->second);
}

uint32_t OperatorKeys::Key(KnownNumbers& side, const profile::Operator& operation) {
  uint32_t& name = side.names[operation.name];
  if (name == kUnnumbered) {
    name = Numbered(names_, Renamed(side.profile->texts[operation.name]));
  }
  if (!options_.use_input_shape) {
    return name;
  }
  uint32_t& shape = side.shapes[operation.shape_key];
  if (shape == kUnnumbered) {
    shape = Numbered(shapes_, side.profile->texts[operation.shape_key]);
  }
  const uint64_t pair = uint64_t{name} << 32U | shape;
  return pairs_.emplace(pair, static_cast<uint32_t>(pairs_.size())).first->second;
}

std::vector<AlignedPair> MatchOperators(const OperatorSide& base, const OperatorSide& comparison,
                                        const PairOptions& options,
                                        std::vector<std::string>& warnings) {
  OperatorMatcher matcher(base, comparison, options);
  auto pairs = matcher.Match();
  matcher.Warn(warnings);
  const bool any = std::any_of(pairs.begin(), pairs.end(), [](const AlignedPair& pair) {
    return pair.base != kUnmatched && pair.comparison != kUnmatched;
  });
  if (options.details && !any && !base.top().empty() && !comparison.top().empty()) {
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

}  // namespace msprobe::analysis::perf
