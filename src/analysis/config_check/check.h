// One check of two packs: the rows of its sheet, and what they mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/config_check/options.h"
#include "src/analysis/config_check/pack.h"
#include "src/analysis/config_check/result.h"
#include "src/analysis/config_check/similarity.h"
#include "src/report/table.h"

namespace msprobe::analysis::config_check {

// Bench and cmp of one comparison.
struct PackPair {
  const Pack& bench;
  const Pack& cmp;
};

// "env", ..., or "packs".
std::string_view PartName(const Finding& finding);

// How many examples a finding names.
inline constexpr size_t kMaxExamples = 4;
void AddExample(Finding& finding, std::string text);
// A value for an example: short and printable.
std::string Shown(std::string_view value);

// Each needs its part in both packs; not ok only when a member cannot be read.
Result<CheckResult> CheckEnv(const PackPair& packs, const CheckOptions& options);
Result<CheckResult> CheckPip(const PackPair& packs, const CheckOptions& options);
Result<CheckResult> CheckDataset(const PackPair& packs);
Result<CheckResult> CheckWeights(const PackPair& packs);
// The search for names or code that are alike ends after `most_steps`; equal ones are still found.
Result<CheckResult> CheckHyperparameters(const PackPair& packs,
                                         uint64_t most_steps = kMostSimilaritySteps);
Result<CheckResult> CheckRandom(const PackPair& packs, uint64_t most_steps = kMostSimilaritySteps);

}  // namespace msprobe::analysis::config_check
