// The ranks of one run against each other: which rank makes the others wait, and which link is slow
// although no rank is late.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/perf/options.h"
#include "src/report/document.h"

namespace msprobe::analysis::perf {

// Times are milliseconds of a mean step.
struct RankLoad {
  int64_t rank = 0;
  uint64_t steps = 0;
  double step_ms = 0;
  double computing_ms = 0;
  double communication_ms = 0;      // while nothing computes
  double free_ms = 0;               // copies, and while the device does nothing
  double waiting_ms = 0;            // in collectives, for later ranks
  double transfer_ms = 0;           // in collectives, the rest
  std::string error;                // why nothing is known of it
  std::vector<double> own_of_step;  // own_ms of each step, where collectives tell steps apart

  // What others may have to wait for: all but communication.
  double own_ms() const { return step_ms - communication_ms; }
};

struct RankFinding {
  bool is_late = false;          // else a slow link
  size_t place = 0;              // into RanksOfRun::ranks
  double cost_ms = 0;            // per step
  double usual_ms = 0;           // what the others take: own_ms, or in these collectives
  bool computes_longer = false;  // late: on the device, not in between
  std::string group;             // slow link: the ranks of its collectives, "0 1"; empty: all
};

struct RanksOfRun {
  std::vector<RankLoad> ranks;        // by rank
  std::vector<RankFinding> findings;  // the most expensive first
  size_t known = 0;                   // ranks that could be read
  uint64_t matched = 0;               // collectives found on all ranks of their group
  uint64_t unmatched = 0;             // calls of ranks that others lack, and of point to point
  // Mean waiting per step, [rank][kind].
  std::vector<std::string> kinds;
  std::vector<std::vector<double>> waiting;
  std::vector<std::string> warnings;
  std::vector<std::filesystem::path> files;
  bool reports = true;  // false in all but the first process of a launch
};

// Whether a folder holds the profiles of several ranks.
Result<bool> HoldsRanks(const std::filesystem::path& path);

// Reads the profiles of options.pair.comparison, a rank at a time per thread, and writes ranks.csv.
// Under a launcher each process reads its share, and the first one judges.
Result<RanksOfRun> CompareRanks(const Options& options);

inline constexpr std::array<report::GateLevel, 2> kRankLevels = {
    {{"late", "a rank makes the others wait", false},
     {"link", "collectives take longer although no rank is late", false}}};

report::Document MakeDocument(const RanksOfRun& run, size_t top);

}  // namespace msprobe::analysis::perf
