// A pair and a run in one word, and the names they go by in every report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/analysis/compare/summary.h"

namespace msprobe::analysis::compare {

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

// Why nothing could be compared and what to try; empty unless VerdictOf(pair) is kNothingCompared.
std::string NothingComparedHint(const PairSummary& pair);

// Where to look first: the earliest step that is not clean, then ranks whose origin is their own
// rather than another rank's, then most differing rows. Empty when no pair has an origin. Steps
// before it that only drift stand on their own: their drift is not told as the origin of a later
// step.
std::optional<size_t> LeadingPair(const RunSummary& summary);

// "1.0e-03"; "not finite" for infinities and NaN.
std::string ErrorText(double error);

}  // namespace msprobe::analysis::compare
