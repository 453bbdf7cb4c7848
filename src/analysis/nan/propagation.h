// What followed from an origin: over which communications bad values reached other ranks, and what
// they spoiled first.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/analysis/nan/rank_dump.h"
#include "src/analysis/nan/search.h"

namespace msprobe::analysis::nan {

struct Consequence {
  uint32_t rank_place = 0;
  uint32_t operator_place = 0;
};

struct Propagation {
  std::vector<Arrival> chain;             // from the origins on, by clock
  std::vector<Consequence> consequences;  // the first operators that took bad values in: several of
                                          // the origins' ranks, one of every rank reached
  std::vector<Consequence> backward;      // the first bad gradient of every rank reached
  uint64_t reached_ranks = 0;             // with the origins' own
  uint64_t affected_operators = 0;        // of these ranks, with bad inputs, behind the bad arrival
};

Propagation Follow(std::span<const RankDump> ranks, std::span<const Origin> origins,
                   std::span<const Arrival> arrivals);

// The same as a graph: operators as nodes, "next on this rank" and "sent to" as edges.
std::string GraphJson(std::span<const RankDump> ranks, std::span<const Origin> origins,
                      const Propagation& propagation);
std::string GraphMermaid(std::span<const RankDump> ranks, std::span<const Origin> origins,
                         const Propagation& propagation);

}  // namespace msprobe::analysis::nan
