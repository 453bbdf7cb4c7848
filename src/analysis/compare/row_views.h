// The rows of every call with their partners, as the walk for the first divergence looks at them.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/analysis/compare/agreement.h"
#include "src/analysis/compare/call_alignment.h"
#include "src/analysis/compare/differing_rows.h"
#include "src/analysis/compare/error_bound.h"
#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/side.h"

namespace msprobe::analysis::compare {

// Borrows everything it is given. For one thread at a time.
class RowViews {
 public:
  RowViews(const Side& npu, const Side& bench, const PairResult& result,
           const CallAlignment& alignment);

  // Result rows of an entry, as indices into PairResult::rows.
  std::vector<uint32_t>::const_iterator Begin(uint32_t entry) const;
  std::vector<uint32_t>::const_iterator End(uint32_t entry) const;

  // `agrees` and `stored` are not decided yet.
  RowView View(uint32_t result_row) const;

  // True when the row's partner by name is also its partner by the order of calls.
  bool PairedByName(const RowResult& row) const;

 private:
  const SideRow* AlignedBench(const SideRow& npu) const;
  void IndexArguments(uint32_t bench_entry) const;
  const SideRow* BenchOfSameName(const SideRow& npu) const;
  bool SeenElsewhere(const SideRow& npu) const;

  const Side& npu_;
  const Side& bench_;
  const PairResult& result_;
  const CallAlignment& alignment_;
  std::vector<uint32_t> first_;  // by entry: into grouped_
  std::vector<uint32_t> grouped_;
  std::unordered_map<std::string_view, uint32_t>
      unmatched_;  // rows whose bench row of the same name has another shape or dtype
  // Of the bench call with many rows that was looked at last: its rows by argument.
  mutable uint32_t indexed_ = kNoEntry;
  mutable std::unordered_map<std::string_view, uint32_t> row_of_argument_;
};

// What an error bound needs of a row. `epsilon`: of the coarser dtype, 0 for exact types.
Operand OperandOf(const RowView& row, double epsilon);

}  // namespace msprobe::analysis::compare
