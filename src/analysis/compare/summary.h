// A whole run in numbers and names: what summary.json, the JUnit report and the screen are made of.
// Holds texts only, so that it outlives the pairs it tells about.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/compare/compare_pair.h"
#include "src/analysis/compare/divergence.h"
#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/pairing.h"
#include "src/json/writer.h"
#include "src/report/advice.h"
#include "src/report/document.h"

namespace msprobe::analysis::compare {

// How a row of the table counts for the gates "error" and "warning". Not every red row is an error:
// infinities and NaNs that are the same on both sides are red in the table of the Python tool, and
// no difference.
enum class RowConcern : uint8_t { kNone, kWarning, kError };
RowConcern ConcernOf(const Side& npu, const Side& bench, const RowResult& row, RowStatus standing);

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
  bool is_joined = false;  // of several ranks
  std::string task;
  std::string level;
  std::string bench_level;
  std::string npu_framework;  // "pytorch", "mindspore" or empty
  std::string bench_framework;
  std::optional<LayoutFacts> npu_layout;
  std::optional<LayoutFacts> bench_layout;
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

// A pair and a run in one word, and the names they go by in every report.

// Best first.
enum class PairVerdict : uint8_t {
  kIdentical,    // every matched row equal
  kAgrees,       // apart by rounding noise only
  kUnequalBits,  // checksums: not bit-equal; how far apart they cannot say, the statistics beside
                 // them say noise
  kUnmatched,    // matched rows agree, but rows stand alone
  kUnreadable,   // what could be read agrees, but tensor files could not be
  kNothingCompared,  // no row has values on both sides
  kDrifts,           // rows are further apart than noise, but no call is an origin: noise piled up
  kDiffers,          // the divergence has an origin
  kFailed,           // could not be compared
};
inline constexpr size_t kPairVerdictCount = 9;

// "identical", "agree", "not bit-equal", "unmatched", "unreadable", "nothing compared", "drift",
// "differ", "failed".
std::string_view PairVerdictName(PairVerdict verdict);
std::optional<PairVerdict> PairVerdictByName(std::string_view name);

// A verdict as people see it on the screen and on pages.
struct VerdictLook {
  std::string_view word;  // "DIFFERENT"
  report::Tone tone;
};
VerdictLook LookOf(std::optional<PairVerdict> verdict);  // none: not compared

PairVerdict VerdictOf(const PairSummary& pair);
// The worst of its pairs; at least kUnmatched when ranks have no partner.
PairVerdict VerdictOf(const RunSummary& summary);

// "step0/rank1", "step0", "rank1", "dump.json"; " (debug)" behind it for a debug.json beside a
// dump.json.
std::string PairName(const PairSummary& pair);

// Where a point is: "blocks.0.mlp.fc1 (Linear)", "Torch.matmul.0.forward in blocks.0.attn
// (Attention)", or the call alone.
std::string PointPlace(const DivergencePoint& point);

// The same in a sentence: "a parameter of blocks.0.mlp.fc1 (Linear)", "input.0 of
// Functional.embedding.0.forward in wte (Embedding)", "the computation of Torch.matmul.0.forward in
// blocks.0.attn (Attention)".
std::string PointTitle(const DivergencePoint& point);

// "gradient of fc1.weight is 2.000 x the reference on rank 1 (reduced twice?)"; without a
// telling relation "it starts with" and PointTitle.
std::string PointSentence(const DivergencePoint& point, bool is_joined);

// Why nothing could be compared and what to try; none unless VerdictOf(pair) is kNothingCompared.
report::Advice NothingComparedHint(const PairSummary& pair);

// Where to look first: the earliest step that is not clean, then ranks whose origin is their own
// rather than another rank's, then most differing rows. Empty when no pair has an origin. Steps
// before it that only drift stand on their own: their drift is not reported as the origin of a
// later step.
std::optional<size_t> LeadingPair(const RunSummary& summary);

// Pairs of one step that part at the same call, or come out alike without parting: ranks of a group
// do the same. Worst first, by the worst of each.
struct PairGroup {
  std::vector<size_t> pairs;  // places in RunSummary::pairs, rising
};
std::vector<PairGroup> GroupPairs(const RunSummary& summary);

// "ranks 1, 4-7" or "step0/ranks 0-3": a group by its ranks; of one pair PairName.
std::string GroupName(const RunSummary& summary, const PairGroup& group);

// The pairs whose tables are worth a look: the first one of each group that is not clean, of the
// sixteen worst.
std::vector<size_t> LeadingPairs(const RunSummary& summary);

// "1.0e-03"; "not finite" for infinities and NaN.
std::string ErrorText(double error);

// A run as summary.json, for programs. The keys are described in docs/formats/summary_json.md.

std::string SummaryJson(const RunSummary& summary, int exit_code);

// Members of an open object: a number or null, "totals" and the like, and what the walk found
// ("calls", "first_divergence", ...).
void PutNumber(json::Writer& writer, std::string_view key, const std::optional<int64_t>& value);
void PutCounts(json::Writer& writer, std::string_view key, const RowCounts& counts);
void PutDivergence(json::Writer& writer, const DivergenceReport& report);

}  // namespace msprobe::analysis::compare
