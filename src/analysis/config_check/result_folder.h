// The folder of a comparison: bench/, cmp/, result.xlsx, result.json. Everything else in it is
// somebody else's and stays.
#pragma once

#include "msprobe/status.h"

#include "src/analysis/config_check/check.h"
#include "src/analysis/config_check/options.h"
#include "src/analysis/config_check/result.h"
#include "src/base/output_files.h"

namespace msprobe::analysis::config_check {

// Whether the results may be written there; touches nothing. An earlier result needs --force, and
// a bench/ or cmp/ that holds anything but extracted packs is refused even then.
Status CheckResultFolder(const CompareOptions& options);

// Extracts both packs and writes the results, sets `files` of `run`. Everything is made in
// `staging`, inside of run.output_folder, so that a failure leaves the folder as it was.
Status WriteResultFolder(const CompareOptions& options, const PackPair& packs,
                         const base::StagingFolder& staging, CompareRun& run);

}  // namespace msprobe::analysis::config_check
