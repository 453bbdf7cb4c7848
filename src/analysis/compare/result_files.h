// The files a comparison leaves behind, under the reference's names.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/compare_pair.h"
#include "src/analysis/compare/pairing.h"

namespace msprobe::analysis::compare {

// Writes compare_result{suffix}_{stamp}.xlsx (and .csv, .jsonl as asked for), the advisor's text
// and the by-product of a layer mapping. Returns the paths, the main table first; none when the
// pair has no rows.
Result<std::vector<std::filesystem::path>> WriteResultFiles(const Options& options,
                                                            const PlannedPair& plan,
                                                            const ComparedPair& pair,
                                                            const std::string& stamp,
                                                            base::ThreadPool& pool);

// One table as the formats the options ask for: {stem}.xlsx, {stem}.csv, {stem}.jsonl.
Result<std::vector<std::filesystem::path>> WriteTableFiles(const Options& options,
                                                           const report::Table& table,
                                                           const std::filesystem::path& stem,
                                                           bool styled_header,
                                                           base::ThreadPool& pool);

}  // namespace msprobe::analysis::compare
