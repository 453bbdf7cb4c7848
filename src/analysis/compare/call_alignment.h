// Which calls of the two sides did the same work. Names carry call numbers, so that one call more
// on one side shifts the number of every later call of its kind, and rows of equal names belong to
// different calls. Lining up the two orders of execution finds the call that is too many, and the
// pairs behind it.
#pragma once

#include <cstdint>
#include <vector>

#include "src/analysis/compare/execution_order.h"
#include "src/analysis/compare/side.h"

namespace msprobe::analysis::compare {

// Which calls the capture levels of both sides record: modules (L0, mix), and functions (L1, mix).
// What only one of them records says nothing about the run.
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

// A shortest edit script between the two sequences of calls (E. W. Myers, An O(ND) Difference
// Algorithm, 1986), names without numbers and shapes of inputs being the letters. Where a call that
// is too many could be any of several equal neighbours, values decide. Sides that have little in
// common (more than 1,000 edits) are left to their names.
CallAlignment AlignCalls(const Side& npu, const ExecutionPlan& npu_plan, const Side& bench);

}  // namespace msprobe::analysis::compare
