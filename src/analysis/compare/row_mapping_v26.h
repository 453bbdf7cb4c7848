// How v26 pairs rows: by name whatever the shape, backward calls by the order in which
// they ran, PyTorch modules by fragments of their names.
#pragma once

#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/mapping.h"
#include "src/analysis/compare/options.h"
#include "src/analysis/compare/side.h"

namespace msprobe::analysis::compare {

// As BuildRowMapping, with the differences above. kUsage for an API mapping of a dump that is not
// MindSpore's.
Result<RowMapping> BuildRowMappingV26(const MatchRules& rules, bool strict, const Side& npu,
                                      const Side& bench);

// One key per row: its name, where the number of a backward call is replaced by the count of
// backward entries of the same call before it in the file. Recomputation and re-entrant runs number
// backward calls differently. Keys that differ from the names are kept in `arena`.
std::vector<std::string_view> KeysByExecutionOrder(const Side& side, report::TextArena& arena);

// PyTorch modules: the file's entries {fragment of the NPU's module name: fragment of the bench's}.
// A whole name wins; otherwise every fragment found is replaced once, in the file's order. Rows of
// other kinds keep their names. An empty path: no entries.
Status MapRowsByModule(const std::filesystem::path& file, const Side& npu, RowMapping& mapping);

}  // namespace msprobe::analysis::compare
