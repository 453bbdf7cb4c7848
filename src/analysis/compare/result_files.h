// The files a comparison leaves behind, under the reference's names.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/compare_pair.h"
#include "src/analysis/compare/divergence.h"
#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/pairing.h"
#include "src/analysis/compare/side.h"

namespace msprobe::analysis::compare {

// The advisor's text file: the first row that failed, and what to do about it.

// The first row in table order whose verdict is a failure of its mode.
std::optional<size_t> FirstFailingRow(const PairResult& result);

// Three lines: "Line: <row or NA>", "Suspect Nodes: <name or NA>", "Expert Advice: ...". The row is
// the first that fails its threshold, as the Python tool has it. The advice names the first
// divergence, too, where there is one.
std::string AdvisorText(const Side& npu, const Side& bench, const PairResult& result,
                        const DivergenceReport& divergence);

// Writes compare_result{suffix}_{stamp}.xlsx (and .csv, .jsonl as asked for), the advisor's text
// and the by-product of a layer mapping. Returns the paths, the main table first; none when the
// pair has no rows.
Result<std::vector<std::filesystem::path>> WriteResultFiles(const OutputRules& rules,
                                                            const PlannedPair& plan,
                                                            const ComparedPair& pair,
                                                            const std::string& stamp,
                                                            base::ThreadPool& pool);

// One table as the formats that are asked for: {stem}.xlsx, {stem}.csv, {stem}.jsonl.
Result<std::vector<std::filesystem::path>> WriteTableFiles(const OutputRules& rules,
                                                           const report::Table& table,
                                                           const std::filesystem::path& stem,
                                                           bool styled_header,
                                                           base::ThreadPool& pool);

}  // namespace msprobe::analysis::compare
