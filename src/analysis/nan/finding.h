// An origin with all that the dump says about it: read again from the files, for the few that are
// shown.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/analysis/nan/nan.h"

namespace msprobe::analysis::nan {

// Fills in entries, modules and stacks, file by file. What cannot be read is left empty and told in
// `warnings`.
std::vector<Finding> Describe(std::span<const RankDump> ranks, std::span<const Origin> origins,
                              std::vector<std::string>& warnings);

// The origins without modules around another one of the same rank, or around weights that were bad
// before: their inputs are good and their outputs bad, but they only pass it on.
std::vector<Origin> WithoutContainers(std::span<const RankDump> ranks,
                                      std::span<const Origin> origins);

// Origins of the kind kRecomputed, held against the first run of the same call with the same
// inputs: repetitions of an origin are dropped; those whose first run was good are found ones.
// Moves the latter from `result.weak` to `result.origins`, in order.
void CompareRecomputed(std::span<const RankDump> ranks, SearchResult& result);

}  // namespace msprobe::analysis::nan
