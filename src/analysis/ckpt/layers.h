// Differences summed up per layer of the model.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/ckpt/result.h"

namespace msprobe::analysis::ckpt {

struct LayerDifference {
  std::string name;        // "decoder.layers.3"
  double relative_l2 = 0;  // over all its parameters; NaN where a value is not finite
};

// The name up to its first number; of names without one everything but the last part.
std::string_view LayerOf(std::string_view parameter);

// In order of first appearance; only pairs that were computed. Runs of numbered layers are joined
// ("decoder.layers.0-3") where there would be more than `limit` lines.
std::vector<LayerDifference> LayerDifferences(std::span<const PairResult> pairs, size_t limit);

}  // namespace msprobe::analysis::ckpt
