// A whole run in numbers and names: what summary.json, the JUnit report and the screen are made of.
// Holds texts only, so that it outlives the pairs it tells about.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "src/analysis/compare/compare_pair.h"
#include "src/analysis/compare/divergence.h"
#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/pairing.h"

namespace msprobe::analysis::compare {

inline constexpr size_t kVerdictCount = 9;

// What a row of the table is to the gates "error" and "warning". Not every red row is an error:
// infinities and NaNs that are the same on both sides are red in the table of the Python tool, and
// no difference.
enum class RowConcern : uint8_t { kNone, kWarning, kError };
RowConcern ConcernOf(const Side& npu, const Side& bench, const RowResult& row,
                     RowStanding standing);

struct RowCounts {
  uint64_t rows = 0;
  uint64_t matched = 0;
  uint64_t npu_only = 0;  // no bench row of this name
  uint64_t shape_mismatch = 0;
  uint64_t dtype_mismatch = 0;
  uint64_t bench_only = 0;
  uint64_t other_level = 0;   // neither: the capture level of the bench does not record such calls
  uint64_t identical = 0;     // matched, equal bits, checksums or statistics
  uint64_t agreeing = 0;      // matched and equal up to noise, identical ones included
  uint64_t drifting = 0;      // further apart than noise, but errors before them explain it
  uint64_t differing = 0;     // further apart, at or behind an origin
  uint64_t not_compared = 0;  // matched, but without values to compare
  uint64_t unreadable = 0;    // of a tensor file that could not be read; counted above, too
  uint64_t red = 0;
  uint64_t yellow = 0;
  uint64_t failing = 0;                              // by RowConcern: errors
  uint64_t suspicious = 0;                           // warnings
  std::array<uint64_t, kVerdictCount> by_verdict{};  // indexed by Verdict

  void Add(const RowCounts& other);
};

struct PairSummary {
  std::string npu_path;
  std::string bench_path;
  std::optional<int64_t> step;
  std::optional<int64_t> rank;
  bool is_debug = false;
  std::string task;
  std::string level;
  std::string bench_level;
  std::string npu_framework;  // "pytorch", "mindspore" or empty
  std::string bench_framework;
  CompareMode mode = CompareMode::kStatistics;
  RowCounts counts;
  uint64_t compared_bytes = 0;
  DivergenceReport divergence;
  std::vector<std::filesystem::path> files;  // the main table first
  PairTimings timings;
  std::string
      error;  // why the pair could not be compared; everything above but the paths is empty then
};

struct RunSummary {
  std::vector<PairSummary> pairs;     // by step and rank
  std::vector<std::string> npu_only;  // "step0/rank3": ranks without a partner
  std::vector<std::string> bench_only;
  RowCounts totals;
  uint64_t failed_pairs = 0;
  std::optional<size_t> worst_pair;  // most differing rows; empty when all agree
  std::filesystem::path page;        // for browsers; empty when not asked for
  double seconds = 0;                // of the whole run
  size_t threads = 0;
};

PairSummary SummarizePair(const PlannedPair& plan, const Side& npu, const Side& bench,
                          const PairFindings& findings);
inline PairSummary SummarizePair(const PlannedPair& plan, const ComparedPair& pair) {
  return SummarizePair(plan, pair.npu, pair.bench, pair);
}

// Sums up the pairs: totals, failed and worst.
void FinishSummary(RunSummary& summary);

// Less than half of what either side holds has a partner with values.
bool MostlyUnmatched(const PairSummary& pair);

}  // namespace msprobe::analysis::compare
