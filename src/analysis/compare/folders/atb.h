// Dumps of the Ascend Transformer Boost: one folder per execution round with statistic.csv and the
// tensors of every operator.
#pragma once

#include <filesystem>

#include "msprobe/status.h"

#include "src/analysis/compare/folders/folders.h"
#include "src/analysis/compare/options.h"
#include "src/base/threads.h"

namespace msprobe::analysis::compare {

// options.npu_path and bench_path name the two round folders. Rows pair by operator, its place and
// the tensor's index; only those of both sides are listed, in target order. One table: statistics
// where the dumps hold no tensors, else metrics of the tensors. kMismatch when the two are of
// different kinds or have no row in common.
Result<FolderComparison> CompareAtb(const Options& options, base::ThreadPool& pool);

// Whether the folder holds a statistic.csv of such a round.
bool IsAtbRound(const std::filesystem::path& folder);

}  // namespace msprobe::analysis::compare
