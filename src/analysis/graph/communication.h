// Which calls of different ranks are one communication.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/graph/model.h"
#include "src/analysis/graph/options.h"
#include "src/analysis/graph/rank_dump.h"

namespace msprobe::analysis::graph {

// One end of a communication, and the other ends.
struct Partners {
  std::string_view kind;              // "send", "receive", "send_receive"
  std::map<int64_t, uint32_t> nodes;  // by rank: the node of that rank's graph
};

// Of one rank: by node; several where one call makes several transfers.
using PartnersOfNodes = std::map<uint32_t, std::vector<Partners>>;

struct RankGraph {
  int64_t rank = 0;
  const RankDump* dump = nullptr;
  const Graph* graph = nullptr;
};

bool IsCommunicationName(std::string_view node_name);

// By rank, in the order given. Calls are told apart by their kind, their group and how often it was
// called before. By the rules of 8.1.1 a send and its receive must also tell the same values.
Result<std::vector<PartnersOfNodes>> FindPartners(std::span<const RankGraph> ranks,
                                                  Edition edition);

}  // namespace msprobe::analysis::graph
