// Which bench row stands beside each NPU row.
#pragma once

#include <vector>

#include "src/analysis/compare/mapping.h"
#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/side.h"

namespace msprobe::analysis::compare {

struct MatchResult {
  std::vector<RowPair> pairs;  // in NPU order; an NPU row appears once per bench row of equal key
  uint64_t bench_only_count = 0;
};

// Exact: equal key and shape (key alone with a data mapping), then equal dtype or one family of
// dtypes.
MatchResult MatchExactly(const Side& npu, const Side& bench, const RowMapping& mapping);

// Fuzzy: call numbers are ignored; two queues advance together and the first rows that fit are
// paired (see fuzzy_match.cpp).
MatchResult MatchFuzzily(const Side& npu, const Side& bench, const RowMapping& mapping);

// True when two dtypes may be compared: equal, or float16/float32/bfloat16 of one framework; across
// frameworks by class.
bool DTypesComparable(std::string_view npu, std::string_view bench, bool cross_framework);

}  // namespace msprobe::analysis::compare
