// Recognises a differing tensor when it is met again under another name.
#pragma once

#include <cstdint>
#include <vector>

#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/side.h"
#include "src/analysis/compare/step_record.h"

namespace msprobe::analysis::compare {

// What a differing row is known by.
struct RowPrints {
  uint64_t extremes = 0;  // Max and Min of both sides; Norm too when both have the same Max and Min
  uint64_t checksums = 0;
  bool same_extremes = false;
};

// One result row while divergences are sought.
struct RowView {
  uint32_t result = 0;  // index into PairResult::rows
  const SideRow* npu = nullptr;
  const SideRow* bench = nullptr;  // null: shapes differ, so there is no pair
  Distance distance;
  RowPrints prints;  // of rows that are not identical
  bool agrees = true;
  bool forgiven = false;  // agrees although its relative error is large: a gradient that cancels
  bool stored = false;    // a weight or running statistic
  UpdateJudgement update = UpdateJudgement::kUnknown;  // stored: by what the step before left
  double hidden = 0;  // how far single elements may be apart although the statistics hardly are
};

// Both sides' values take part: that two different tensors differ in the same way by chance is out
// of the question. Views keep the checksum; transposed copies keep Max and Min, while Mean and Norm
// may be summed in another order.
RowPrints PrintsOf(const RowView& row, bool has_checksums);

class DifferingRows {
 public:
  explicit DifferingRows(bool has_checksums) : has_checksums_(has_checksums) {}

  void Remember(const RowPrints& prints);
  bool IsKnown(const RowPrints& prints) const;

 private:
  // Open addressing; 0 marks a free place. Several times faster than std::unordered_set when every
  // row differs.
  class PrintSet {
   public:
    void Insert(uint64_t print);
    bool Contains(uint64_t print) const;

   private:
    void Grow();
    std::vector<uint64_t> places_;  // a power of two
    size_t used_ = 0;
  };

  const bool has_checksums_;
  PrintSet prints_;
};

// The scale of a tensor's elements: Norm / sqrt(elements); 0 when unknown.
double RootMeanSquare(const SideRow& row);

}  // namespace msprobe::analysis::compare
