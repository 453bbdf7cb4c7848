// Recognises a differing tensor when it is met again under another name.
#pragma once

#include <cstdint>
#include <unordered_set>

#include "src/analysis/compare/result.h"
#include "src/analysis/compare/side.h"

namespace msprobe::analysis {

// One result row while divergences are sought.
struct RowView {
  uint32_t result = 0;  // index into CompareResult::rows
  const SideRow* npu = nullptr;
  const SideRow* bench = nullptr;  // null: shapes differ, so there is no pair
  Distance distance;
  bool agrees = true;
  bool stored = false;  // a weight or running statistic
};

// Rows are known by prints of both sides' values: that two different tensors differ in the same way
// by chance is out of the question. Views keep the checksum; transposed copies keep Max and Min,
// while Mean and Norm may be summed in another order.
class DifferingRows {
 public:
  explicit DifferingRows(bool has_checksums) : has_checksums_(has_checksums) {}

  void Remember(const RowView& row);
  bool IsKnown(const RowView& row) const;

 private:
  struct Prints {
    uint64_t extremes = 0;  // Max and Min; Norm too when both sides have the same Max and Min
    uint64_t checksums = 0;
    bool same_extremes = false;
  };
  Prints PrintsOf(const RowView& row) const;

  const bool has_checksums_;
  std::unordered_set<uint64_t> prints_;
};

// The scale of a tensor's elements: Norm / sqrt(elements); 0 when unknown.
double RootMeanSquare(const SideRow& row);

}  // namespace msprobe::analysis
