// What a search for the first NaN or infinity of a step came to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/nan/levels.h"
#include "src/analysis/nan/propagation.h"
#include "src/analysis/nan/rank_dump.h"
#include "src/analysis/nan/search.h"
#include "src/analysis/overflow/result.h"
#include "src/dump/json_source.h"

namespace msprobe::analysis::nan {

// An origin with all that the dump says about it.
struct Finding {
  int64_t rank = 0;
  std::string name;
  uint64_t index = 0;  // among the rank's operators
  int64_t clock = 0;
  OriginKind kind = OriginKind::kComputed;
  BadValues made = 0;
  std::string note;
  bool reported = false;                   // in the result file, too
  dump::EntryTree entry;                   // empty when it could not be read again
  std::vector<std::string> modules;        // root ... parent, the operator last
  std::vector<std::string> stack;          // innermost frame first; empty when there is none
  std::vector<std::string> forward_stack;  // of a backward operator: where its forward call stood
};

enum class Outcome : uint8_t {
  kGood,     // nothing bad that needs an explanation
  kFound,    // an operator made the bad values
  kEntered,  // they came from outside of what was recorded, or were asked for
  kPartial,  // nothing bad in what is there, but a dump ends early, is damaged or empty
  kNothing,  // no maximum of any tensor was recorded: nobody knows
};
std::string_view OutcomeName(Outcome outcome);  // "good", "found", "entered", "incomplete",
                                                // "nothing_searched"

struct StepAnswer {
  std::filesystem::path folder;
  std::optional<int64_t> step;
  Outcome outcome = Outcome::kGood;
  std::vector<RankDump> ranks;    // by number
  std::vector<Finding> findings;  // those reported first, then further ones
  SearchResult search;
  std::vector<Origin> reported;  // of the search, same order as the findings
  Propagation propagation;
  std::vector<std::string> warnings;
  // What the devices noted of their kernels, where such records lie beside the ranks.
  overflow::Findings device;
  LevelSummary levels;  // only with Options::levels
  std::vector<std::filesystem::path> files;
  uint64_t unread_ranks = 0;  // left out, because they could not be read
  uint64_t operator_count = 0;
  uint64_t size_bytes = 0;
  double seconds = 0;
};

struct Answer {
  StepAnswer step;                      // the first bad one of several, or the last good one
  std::vector<std::string> good_steps;  // folders in front of it, with all_steps
};

}  // namespace msprobe::analysis::nan
