// The Python tool's result file.
#pragma once

#include <span>
#include <string>

#include "src/analysis/ckpt/result.h"

namespace msprobe::analysis::ckpt {

// Name -> l2, cos, numel, shape, indented by 4. NaN and infinities as bare words, or null when
// `strict`. "error" stands where a side could not be read.
std::string SimilarityJson(std::span<const PairResult> pairs, bool strict);

}  // namespace msprobe::analysis::ckpt
