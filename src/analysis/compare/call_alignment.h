// Finds the calls of the two sides that did the same work. Names carry call numbers, so that one
// call more on one side shifts the number of every later call of its kind, and rows of equal names
// belong to different calls. Lining up the two orders of execution finds the call that is too many,
// and the pairs behind it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/analysis/compare/side.h"
#include "src/base/threads.h"
#include "src/dump/names.h"
#include "src/dump/stack_file.h"

namespace msprobe::analysis::compare {

inline constexpr uint32_t kNoEntry = UINT32_MAX;

// The order in which the entries of a dump happened, and which of them belong together.
// All vectors but `order` are indexed by entry.
struct ExecutionPlan {
  std::vector<uint32_t> order;         // entries as they happened
  std::vector<dump::EntryName> names;  // views into the side's names
  // For a backward entry: the forward entry of the same call; for a parameters_grad entry: the
  // module's last backward.
  std::vector<uint32_t> partner;
  // Forward, backward and parameters_grad entries of one module share a number; kNoEntry for
  // everything else.
  std::vector<uint32_t> module_of;
  uint32_t module_count = 0;
};

// A dump lists entries in the order in which they first appeared. Only parameters_grad entries
// stand elsewhere: beside the module's forward, though gradients arrive with the backward pass.
// They are moved behind the module's last backward, else behind the last backward of all, else to
// the end. What the optimizer is given, reduced and clipped, depends on all gradients: it comes
// behind the last backward of all.
ExecutionPlan PlanExecution(const Side& side);

// Finds the modules that contain calls that diverged: their own outputs differ because of what
// happened inside. From construct.json, or from module paths ("a.b" contains "a.b.c") when there is
// none. Borrows all three.
class Containment {
 public:
  // `construct` may be null.
  Containment(const Side& side, const ExecutionPlan& plan, const dump::ConstructFile* construct);

  void MarkDiverging(uint32_t entry);
  bool ContainsDiverging(uint32_t entry) const { return InsideOf(entry).diverges; }

  // The largest error recorded of the calls inside a module.
  void RecordError(uint32_t entry, double error);
  double InnerError(uint32_t entry) const { return InsideOf(entry).error; }

  // True when a call was made inside a module, by construct.json or module paths.
  bool IsInside(uint32_t entry, uint32_t module) const;

  // The parent's name by construct.json; empty if unknown.
  std::string_view ParentOf(uint32_t entry) const;
  // "blocks.0.mlp.fc1 (Linear)": the module itself, or the one around a call; empty if unknown.
  std::string LayerOf(uint32_t entry) const;

 private:
  struct Inside {
    bool diverges = false;
    double error = 0;
  };

  static uint64_t PathHash(std::string_view path, dump::Direction direction);
  template <typename Visit>
  void ForModulesAround(uint32_t entry, const Visit& visit);
  Inside InsideOf(uint32_t entry) const;

  const Side& side_;
  const ExecutionPlan& plan_;
  const dump::ConstructFile* construct_;
  std::unordered_map<uint64_t, Inside> inside_;  // by hash of the module's name or path
};

// The kinds of calls that the capture levels of both sides record: modules (L0, mix), and functions
// (L1, mix). Calls that only one side records say nothing about the run.
struct SharedKinds {
  bool modules = true;
  bool functions = true;

  bool Has(const dump::EntryName& name) const {
    return name.is_debug || (name.is_module ? modules : functions);
  }
  bool HasAll() const { return modules && functions; }
};
// All where the levels are the same, one is not known, or nothing would be left.
SharedKinds SharedKindsOf(const Side& npu, const Side& bench);

// A run of calls that only one side made, or that stand in place of others.
struct UnmatchedCalls {
  uint32_t npu_begin =
      0;  // forward calls npu_begin..npu_end-1 in order of execution have no partner
  uint32_t npu_end =
      0;  // equal to npu_begin: the calls are missing on the NPU side, in front of npu_begin
  uint32_t bench_begin = 0;
  uint32_t bench_end = 0;
};

struct CallAlignment {
  // False: both sides made the same calls, and names alone tell the pairs. Everything below is
  // empty then.
  bool differs = false;
  std::vector<uint32_t> forward_npu;  // entries of forward calls in order of execution
  std::vector<uint32_t> forward_bench;
  std::vector<uint32_t> bench_of;         // by NPU entry; kNoEntry where there is none
  std::vector<UnmatchedCalls> unmatched;  // in order of execution
};

// A shortest edit between two lists of letters: for each letter of `a` the place of its partner in
// `b`, kNoEntry where there is none. Lists that have little in common have no partners at all.
std::vector<uint32_t> AlignLetters(const std::vector<uint64_t>& a, const std::vector<uint64_t>& b);

struct CallOrder {
  ExecutionPlan plan;  // of the NPU side
  CallAlignment alignment;
};

// The plan, and a shortest edit script between the two sequences of calls (E. W. Myers, An O(ND)
// Difference Algorithm, 1986), names without numbers and shapes of inputs being the letters. Where
// a call that is too many could be any of several equal neighbours, values decide. Sides that have
// little in common (more than 1,000 edits) are left to their names.
enum class CallPairs : uint8_t {
  kByOrder,
  kByName,        // of whatever number: nothing is aligned
  kByUniqueName,  // names tell the pairs: whole names are the letters, and a call that both sides
                  // made at different places counts as matched
};
CallOrder OrderCalls(const Side& npu, const Side& bench, CallPairs pairs, base::ThreadPool& pool);

}  // namespace msprobe::analysis::compare
