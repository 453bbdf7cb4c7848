// A whole comparison of two checkpoints: from paths to result files, and its answer.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/ckpt/result.h"
#include "src/report/document.h"
#include "src/report/table.h"

namespace msprobe::analysis::ckpt {

// The Python tool's result file.

// Name -> l2, cos, numel, shape, indented by 4. NaN and infinities as bare words, or null when
// `strict`. "error" stands where a side could not be read.
std::string SimilarityJson(std::span<const PairResult> pairs, bool strict);

// Where and whether the result files can be written is checked before anything is read. Progress
// goes to stderr unless options.quiet.
Result<Comparison> Run(const Options& options);

// Differences summed up per layer of the model.

struct LayerDifference {
  std::string name;        // "decoder.layers.3"
  double relative_l2 = 0;  // over all its parameters; NaN where a value is not finite
};

// The name up to its first number; of names without one everything but the last part.
std::string_view LayerOf(std::string_view parameter);

// In order of first appearance; only pairs that were computed. Runs of numbered layers are joined
// ("decoder.layers.0-3") where there would be more than `limit` lines.
std::vector<LayerDifference> LayerDifferences(std::span<const PairResult> pairs, size_t limit);

// Everything that is known of each parameter, beyond the four figures of the main result.

// One row per pair, then one per parameter without a partner. Red: shapes, unreadable, NaN or
// infinity on one side only; yellow: other differences.
report::Table DetailsTable(const Comparison& comparison);

// The same as one JSON object with both inputs and counts in front; non-finite numbers as text.
std::string DetailsJson(const Comparison& comparison);

// {"only_in_1": [{"name", "reason"}], "only_in_2": [...], "left_out_1": [...], "left_out_2": [...]}
std::string UnmatchedJson(const Comparison& comparison);

inline constexpr std::array<report::GateLevel, 4> kGateLevels = {
    {{"error", "a pair of different shapes, or NaN or infinity on one side only"},
     {"missing", "also a parameter that only one checkpoint has"},
     {"different", "also a pair of different values (see --rtol, --atol)"},
     {"nan", "also NaN or infinity on both sides", /*includes_previous=*/true,
      /*on_request=*/true}}};

// Its page has a map of layers by kinds of parameters, and the figures of each.
report::Document MakeDocument(const Comparison& comparison);

}  // namespace msprobe::analysis::ckpt
