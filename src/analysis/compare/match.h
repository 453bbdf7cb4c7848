// Pairs the rows of both sides.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/compare/mapping.h"
#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/side.h"
#include "src/base/threads.h"

namespace msprobe::analysis::compare {

struct MatchResult {
  std::vector<RowPair> pairs;  // in NPU order; an NPU row appears once per bench row of equal key
  uint64_t bench_only_count = 0;
  std::vector<std::string> warnings;  // names that too many rows have
};

// Rows of one name on both sides are all paired with each other. A dump in which a name repeats
// without end would have the square of its rows as pairs: this many more than one for each row are
// made, and this many for each row of both sides.
inline constexpr uint64_t kMostRepeatedPairs = 65'536;
inline constexpr uint64_t kRepeatedPairsPerRow = 8;

// The remaining pairs. A pair counts once, and once more for every kPairNameBytes of its name,
// which a result repeats.
class PairBudget {
 public:
  PairBudget(size_t npu_rows, size_t bench_rows)
      : left_(kMostRepeatedPairs + kRepeatedPairsPerRow * (npu_rows + bench_rows)) {}

  // Whether `npu_rows` and `bench_rows` of one name may all be paired; takes their share if so.
  bool Take(uint64_t npu_rows, uint64_t bench_rows, size_t name_bytes);

  // Notes rows of this name, which are paired one by one in their order.
  void Refuse(std::string_view name, uint64_t npu_rows, uint64_t bench_rows);

  // At most one warning, for all that was refused.
  std::vector<std::string> Warnings() const;

 private:
  static constexpr size_t kPairNameBytes = 256;

  uint64_t left_;
  uint64_t refused_ = 0;
  std::string first_;
};

// Exact: equal key and shape (key alone with a data mapping), then equal dtype or one family of
// dtypes. Names that repeat beyond a PairBudget are paired first with first, second with second.
MatchResult MatchExactly(const Side& npu, const Side& bench, const RowMapping& mapping,
                         base::ThreadPool* pool = nullptr);

// Fuzzy: call numbers are ignored; two queues advance together and the first rows that fit are
// paired (see match.cpp).
MatchResult MatchFuzzily(const Side& npu, const Side& bench, const RowMapping& mapping);

// True when two dtypes may be compared: equal, or float16/float32/bfloat16 of one framework; across
// frameworks by class.
bool DTypesComparable(std::string_view npu, std::string_view bench, bool cross_framework);

}  // namespace msprobe::analysis::compare
