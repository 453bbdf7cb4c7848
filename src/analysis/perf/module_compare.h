// Modules of both sides: which of them are one, and the sheets ModuleCompare and
// ModuleCompareStatistic, which say what modules took on the device and which of their operators
// did.
//
// Modules and optimizer steps are nested by time, and known by their paths. An operator that a
// backward pass runs for one of the forward pass counts as a backward module, which is named after
// the forward module that the forward operator lies in (the link is the profiler's arrow from the
// one to the other). Launches and operators belong to the innermost module around them, of the
// forward tree if there is one; of operators only those count that lie in no other operator of
// their module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/perf/alignment.h"
#include "src/analysis/perf/operator_tree.h"
#include "src/analysis/perf/options.h"
#include "src/profile/common/values.h"
#include "src/profile/profile.h"
#include "src/report/xlsx_writer.h"

namespace msprobe::analysis::perf {

// An operator that runs in a module and in no other operator of it.
struct ModuleOperator {
  uint32_t operation = 0;  // into Profile::operators
  uint32_t first_kernel = 0;
  uint32_t kernel_count = 0;
};

struct Module {
  // "/nn.Module: Net_0/nn.Module: Linear_0"; backward "/[ BACKWARD ]/nn.Module: Net_0/...".
  profile::TextId path = profile::kNoText;
  std::string_view name;      // the last part of the path
  uint32_t parent = kNoNode;  // a module before it
  uint32_t level = 2;         // one more than its depth in its tree
  profile::Nanoseconds start = 0;
  double self_us = 0;   // on the device: launched in no module inside
  double total_us = 0;  // with the modules inside
  uint32_t first_operator = 0;
  uint32_t operator_count = 0;
};

class ModuleSide {
 public:
  // A path repeats the names around a module, so that a few long names around many modules would
  // fill the memory; thirty levels of names of sixty characters are half of it.
  static constexpr size_t kLongestPath = 4096;
  static constexpr size_t kMostPathBytes = size_t{256} << 20U;

  // Borrows `side`.
  explicit ModuleSide(const OperatorSide& side);

  const OperatorSide& side() const { return *side_; }
  const profile::Profile& profile() const { return side_->profile(); }
  // False when no module was recorded.
  bool has_modules() const { return has_modules_; }
  bool cut() const { return forward_.cut() || backward_.cut() || functions_.cut(); }
  // Paths are longer, or more, than those of any net: deeper ones end with "/...".
  bool cuts_paths() const { return cuts_paths_; }

  // Forward passes, then backward passes, each by start.
  std::span<const Module> modules() const { return modules_; }
  const Module& operator[](uint32_t module) const { return modules_[module]; }
  std::string_view path(uint32_t module) const { return paths_[modules_[module].path]; }
  const profile::Texts& paths() const { return paths_; }

  std::span<const uint32_t> forward_roots() const {
    return children_[kNoNode].first(forward_.roots().size());
  }
  std::span<const uint32_t> backward_roots() const {
    return children_[kNoNode].subspan(forward_.roots().size());
  }
  std::span<const uint32_t> children(uint32_t module) const { return children_[module]; }
  std::span<const ModuleOperator> operators(uint32_t module) const {
    return std::span(operators_)
        .subspan(modules_[module].first_operator, modules_[module].operator_count);
  }
  // Operators that run in no module, with what was launched in none.
  std::span<const ModuleOperator> outside() const {
    return std::span(operators_).subspan(first_outside_);
  }
  // Into Profile::kernels.
  std::span<const uint32_t> kernels(const ModuleOperator& operation) const {
    return std::span(kernels_).subspan(operation.first_kernel, operation.kernel_count);
  }
  std::string_view name(const ModuleOperator& operation) const {
    return profile().texts[profile().operators[operation.operation].name];
  }
  // Outermost first, joined by ";\n": of the python function that the module was called in; where
  // none is known, of the modules around it. Cut at what a cell can hold.
  std::string CallStack(uint32_t module) const;

 private:
  uint32_t forward_count() const { return static_cast<uint32_t>(forward_.nodes().size()); }
  void MakeForward();
  void MakeBackward();
  profile::TextId PathOf(profile::TextId parent, std::string_view name);
  void AddModules(const NestedIntervals& tree, std::span<const std::string_view> names);
  void PlaceOperators();
  // Hands launches (into KernelLinks::times()) out to operators_[first, ...).
  void TakeKernels(size_t first, std::span<const uint32_t> launches);

  const OperatorSide* side_;
  bool has_modules_ = false;
  NestedIntervals forward_;
  NestedIntervals backward_;
  NestedIntervals functions_;
  std::vector<std::string_view> function_names_;  // by interval
  profile::Texts backward_texts_;
  profile::Texts paths_;
  size_t path_bytes_ = 0;  // of all of them
  bool cuts_paths_ = false;
  std::vector<Module> modules_;
  Lists children_;  // of modules
  std::vector<ModuleOperator> operators_;
  size_t first_outside_ = 0;
  std::vector<uint32_t> kernels_;
};

// Both sides recorded modules, and they were asked for. Otherwise operators are to be compared.
bool CanCompareModules(const ModuleSide& base, const ModuleSide& comparison,
                       const PairOptions& options);

// Pairs of modules whose paths are equal, level by level from pairs around them, and the rest
// alone; by start of the base's, modules of the comparison alone in between by theirs.
std::vector<AlignedPair> MatchModules(const ModuleSide& base, const ModuleSide& comparison,
                                      const PairOptions& options);

// For "/nn.Module: Net_0/nn.Module: Linear_3": "nn.Module: Linear" and "/ Net_0/ Linear_3".
std::string_view ModuleClass(std::string_view path);
std::string ModuleName(std::string_view path);

// For each pair of MatchModules its sums, then its operators aligned by name. Warns where nothing
// was recorded for the columns of operators' call stacks.
report::FormattedTable ModuleDetails(const ModuleSide& base, const ModuleSide& comparison,
                                     std::span<const AlignedPair> pairs, const PairOptions& options,
                                     std::vector<std::string>& warnings);

// For each path its sums over all modules of that path, then its operators by name.
report::FormattedTable ModuleStatistic(const ModuleSide& base, const ModuleSide& comparison,
                                       std::span<const AlignedPair> pairs,
                                       const PairOptions& options);

}  // namespace msprobe::analysis::perf
