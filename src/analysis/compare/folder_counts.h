// What a comparison of folders came to: how many rows agree, and which is the first that does not.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "msprobe/dtype.h"

#include "src/analysis/compare/pair_result.h"

namespace msprobe::analysis::compare {

struct FolderCounts {
  uint64_t compared = 0;
  uint64_t identical = 0;  // of those
  uint64_t differing = 0;  // of those, apart by more than the noise of the dtype
  uint64_t npu_only = 0;   // rows without a partner
  uint64_t bench_only = 0;
  uint64_t mismatched = 0;      // of another shape or dtype
  uint64_t unreadable = 0;      // a file of either side
  std::string first_differing;  // the first such row in a sentence; empty: none

  // A row with values on both sides. Rows come in the order in which their operators ran, inputs
  // before outputs.
  void Add(const Distance& distance, double noise, std::string_view name);
};

// What rounding alone may cause: a few units in the last place of the coarser dtype.
double FolderNoise(DType npu, DType bench);
// The same of statistics that were written with six digits.
inline constexpr double kTextNoise = 1e-4;

// Of Max, Min, Mean and Norm; NaN where there is no number.
Distance FolderDistance(const std::array<double, kStatCount>& npu,
                        const std::array<double, kStatCount>& bench);

}  // namespace msprobe::analysis::compare
