// Host operators nested by time, with the kernels they launched and the memory they asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/perf/nesting.h"
#include "src/profile/profile.h"

namespace msprobe::analysis::perf {

// The kernels that were launched at a point of the host's time. Profilers record a launch as an
// arrow from a time and thread of the host to the start of a kernel, not from an operator: which
// operator it belongs to is decided later, by the nesting of the operators at that time.

class KernelLinks {
 public:
  // Flows that end where no kernel starts are ignored. Where kernels share process, thread
  // and start, the last one counts.
  explicit KernelLinks(const profile::Profile& side);

  static constexpr uint32_t kNone = UINT32_MAX;

  // Host times from which at least one kernel was launched, rising.
  std::span<const profile::Nanoseconds> times() const { return times_; }
  // Indices into Profile::kernels of those launched at times()[index], in the flows' order.
  std::span<const uint32_t> kernels(size_t index) const {
    return std::span(kernels_).subspan(begins_[index], begins_[index + 1] - begins_[index]);
  }
  // The place of a host time in times(), or kNone.
  uint32_t Find(profile::Nanoseconds host_time) const;

 private:
  std::vector<profile::Nanoseconds> times_;
  std::vector<uint32_t> begins_;
  std::vector<uint32_t> kernels_;
};

// The text after the first '#' of a step marker.
std::string_view StepOf(std::string_view marker_name);
bool IsOptimizer(std::string_view operator_name);

// The operators of a profile nested by the rule of NestedIntervals, numbered by start.
class OperatorTree {
 public:
  struct Node {
    uint32_t operation = 0;              // into Profile::operators
    uint32_t parent = kNoNode;           // before it
    uint32_t link = KernelLinks::kNone;  // into KernelLinks::times()
    uint32_t kernel_count = 0;           // of the node and everything below
  };

  OperatorTree(const profile::Profile& side, const KernelLinks& links);

  uint32_t size() const { return static_cast<uint32_t>(launches_.size()); }
  Node operator[](uint32_t node) const {
    const NestedIntervals::Node& call = calls_[node];
    return {call.interval, call.parent, launches_[node].link, launches_[node].kernel_count};
  }
  std::span<const uint32_t> roots() const { return calls_.roots(); }
  std::span<const uint32_t> children(uint32_t node) const { return calls_.children(node); }
  // Into Profile::allocations: those made while this operator was the innermost.
  std::span<const uint32_t> allocations(uint32_t node) const { return allocations_[node]; }

  // Calls visit(node) for the node and everything below it, level by level. `queue` is scratch.
  template <typename Visit>
  void VisitBelow(uint32_t node, std::vector<uint32_t>& queue, const Visit& visit) const {
    queue.assign(1, node);
    for (size_t next = 0; next < queue.size(); ++next) {
      const uint32_t current = queue[next];
      visit(current);
      const auto below = children(current);
      queue.insert(queue.end(), below.begin(), below.end());
    }
  }

 private:
  struct Launches {
    uint32_t link = KernelLinks::kNone;
    uint32_t kernel_count = 0;
  };

  NestedIntervals calls_;
  std::vector<Launches> launches_;  // by node
  Lists allocations_;
};

// One profile with what comparing its operators needs; made once, used by every sheet. Borrows the
// profile.
class OperatorSide {
 public:
  // `step`: only what lies in step markers of that number.
  OperatorSide(const profile::Profile& profile, const std::optional<std::string>& step);

  const profile::Profile& profile() const { return *profile_; }
  const KernelLinks& links() const { return links_; }
  const OperatorTree& tree() const { return tree_; }
  const profile::Operator& operation(uint32_t node) const {
    return profile_->operators[tree_[node].operation];
  }
  std::string_view name(uint32_t node) const { return profile_->texts[operation(node).name]; }
  // Roots, with what lies in a step marker instead of the marker.
  std::span<const uint32_t> top() const { return top_; }
  // Every operator but the step markers: in order of start; of one step, level by level.
  std::span<const uint32_t> all() const { return all_; }

  // Both visit the node and everything below it, level by level; kernels and allocations by their
  // place in the profile.
  template <typename Visit>
  void VisitKernels(uint32_t node, std::vector<uint32_t>& queue, const Visit& visit) const {
    tree_.VisitBelow(node, queue, [&](uint32_t current) {
      if (const uint32_t link = tree_[current].link; link != KernelLinks::kNone) {
        for (const uint32_t kernel : links_.kernels(link)) {
          visit(profile_->kernels[kernel]);
        }
      }
    });
  }
  // visit(allocation, name): the allocation's own name, or the operator's.
  template <typename Visit>
  void VisitAllocations(uint32_t node, std::vector<uint32_t>& queue, const Visit& visit) const {
    tree_.VisitBelow(node, queue, [&](uint32_t current) {
      for (const uint32_t index : tree_.allocations(current)) {
        const profile::Allocation& allocation = profile_->allocations[index];
        const profile::TextId own = allocation.name;
        visit(allocation, own == profile::kNoText ? operation(current).name : own);
      }
    });
  }

 private:
  const profile::Profile* profile_;
  KernelLinks links_;
  OperatorTree tree_;
  std::vector<uint32_t> top_;
  std::vector<uint32_t> all_;
};

}  // namespace msprobe::analysis::perf
