// A whole comparison of two checkpoints: from paths to result files.
#pragma once

#include <span>
#include <string>

#include "msprobe/status.h"

#include "src/analysis/ckpt/result.h"

namespace msprobe::analysis::ckpt {

// The Python tool's result file.

// Name -> l2, cos, numel, shape, indented by 4. NaN and infinities as bare words, or null when
// `strict`. "error" stands where a side could not be read.
std::string SimilarityJson(std::span<const PairResult> pairs, bool strict);

// Where and whether the result files can be written is checked before anything is read. Progress
// goes to stderr unless options.quiet.
Result<Comparison> Run(const Options& options);

}  // namespace msprobe::analysis::ckpt
