// Folders of .pt files without a dump.json, one file per tensor, as a captured ACL graph writes
// them: {call}.{input|input_kwargs|output}[.{n}].pt, or {name}_{n}.pt.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/compare_pair.h"
#include "src/analysis/compare/options.h"
#include "src/analysis/compare/pairing.h"
#include "src/base/threads.h"

namespace msprobe::analysis::compare {

// Whether there is such a file in the folder or below it.
bool HoldsTensorFiles(const std::filesystem::path& folder);

// Folders of equal paths below both sides pair, and where each side has one only these two.
// kNotFound when none does.
Result<PairingPlan> PlanTensorFolders(const Options& options);

// Files of one name pair; their calls stand in the order of their names and numbers, since no file
// tells the order in which they ran. planned.npu_json and bench_json are the folders.
Result<ComparedPair> CompareTensorFolders(const Options& options, const PlannedPair& planned,
                                          base::ThreadPool& pool);

}  // namespace msprobe::analysis::compare
