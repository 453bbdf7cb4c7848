// An origin with all that the dump says about it: read again from the files, for the few that are
// shown.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/analysis/nan/result.h"

namespace msprobe::analysis::nan {

// Fills in entries, modules and stacks, file by file. What cannot be read is left empty and told in
// `warnings`.
std::vector<Finding> Describe(std::span<const RankDump> ranks, std::span<const Origin> origins,
                              std::vector<std::string>& warnings);

// Takes out of `result.origins` the modules around another origin of the same rank, around weights
// that were bad before, and around a communication that brought bad values: their inputs are good
// and their outputs bad, but they only pass it on. A module around an operator whose bad inputs
// nobody recorded gives way to that operator, which becomes an origin of the kind kUnrecorded.
void ResolveContainers(std::span<const RankDump> ranks, SearchResult& result);

// Origins of the kind kRecomputed, held against the first run of the same call with the same
// inputs: repetitions of an origin are dropped; those whose first run was good are found ones.
// Moves the latter from `result.weak` to `result.origins`, in order.
void CompareRecomputed(std::span<const RankDump> ranks, SearchResult& result);

}  // namespace msprobe::analysis::nan
