// A pair and a run in one word, and the names they go by in every report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/analysis/compare/summary.h"

namespace msprobe::analysis {

enum class PairVerdict : uint8_t {
  kNotCompared,  // tables without values to compare, or no rows
  kIdentical,    // every matched row equal
  kAgrees,       // apart by rounding noise only
  kUnmatched,    // matched rows agree, but rows stand alone
  kDrifts,       // rows are further apart than noise, but no call is an origin: noise piled up
  kDiffers,      // rows are further apart than noise
  kFailed,       // could not be compared
};
inline constexpr size_t kPairVerdictCount = 7;

// "not compared", "identical", "agree", "unmatched", "drift", "differ", "failed".
std::string_view PairVerdictName(PairVerdict verdict);

PairVerdict VerdictOf(const PairSummary& pair);
// The worst of its pairs; at least kUnmatched when ranks have no partner.
PairVerdict VerdictOf(const RunSummary& summary);

// "step0/rank1", "step0", "rank1", "dump.json"; " (debug)" behind it for a debug.json beside a
// dump.json.
std::string PairName(const PairSummary& pair);

// Where a point is: "blocks.0.mlp.fc1 (Linear)" when its layer is known and matters, else its call.
std::string PointPlace(const DivergencePoint& point);

// The same in a sentence: "a parameter of blocks.0.mlp.fc1 (Linear)", "input.0 of
// Functional.embedding.0.forward", "the computation of Torch.matmul.0.forward in blocks.0.attn
// (Attention)".
std::string PointTitle(const DivergencePoint& point);

// Where to look first: the earliest step, then ranks whose origin is their own rather than another
// rank's, then most differing rows. Empty when no pair has an origin.
std::optional<size_t> LeadingPair(const RunSummary& summary);

// "1.0e-03"; "not finite" for infinities and NaN.
std::string ErrorText(double error);

}  // namespace msprobe::analysis
