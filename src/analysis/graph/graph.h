// Builds the graphs of dumps, compares them and writes their files: `msprobe graph`.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/summary.h"
#include "src/analysis/graph/options.h"
#include "src/report/document.h"

namespace msprobe::analysis::graph {

// One rank of one step.
struct RankSummary {
  int64_t step = 0;
  int64_t rank = 0;
  uint64_t nodes = 0;        // of the NPU side
  uint64_t bench_nodes = 0;  // 0: build
  uint64_t matched = 0;      // NPU nodes with a partner
  uint64_t passed = 0;       // of those with values, by the rules of 26.x
  uint64_t warned = 0;
  uint64_t failed = 0;
  uint64_t overflowing = 0;    // nodes with a level of overflow
  std::string first_failed;    // in the order of the tree; empty: none
  std::optional<size_t> pair;  // its place in Answer::comparison
};

struct Answer {
  bool is_comparison = false;
  std::optional<compare::CompareMode> mode;  // of a comparison; none: of structures
  std::vector<RankSummary> ranks;            // by step, then rank
  // The result of `compare` for the same dumps; none: a build, structures alone, or merged ranks.
  std::optional<compare::RunSummary> comparison;
  std::vector<std::filesystem::path> files;
  std::vector<std::string> warnings;
  bool incomplete = false;  // a rank could not be read
  uint64_t size_bytes = 0;  // of the dumps
  double seconds = 0;
  // False in a process that handed its share to another one; nothing else here is of use then.
  bool reports = true;
};

// A rank that cannot be read is a warning as long as another one of its step can be.
Result<Answer> Run(const Options& options);

// Two chains, as of `compare`: what the rules of 26.x say of nodes, and what the walk says of the
// run.
inline constexpr std::array<report::GateLevel, 3> kGateLevels = {
    {{"error", "a matched node that is judged an error"},
     {"unmatched", "also nodes that only one side has"},
     {"different",
      "a divergence somewhere, or rows without partner; checksums: any bit that differs",
      /*includes_previous=*/false}}};

report::Document MakeDocument(const Answer& answer);

}  // namespace msprobe::analysis::graph
