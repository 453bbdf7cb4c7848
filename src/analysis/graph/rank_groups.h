// Communication between ranks: who talks to whom, and which ranks share a model.
//
// Groups are found in three steps. Recorded calls come first: ranks whose first reduction is one
// share layers (tensor parallelism), ranks that send to each other between modules are stages of a
// pipeline, ranks that exchange values inside of attention modules have parts of a sequence.
// Groups of the wrong size are replaced by those of --order. All kinds together must make a grid,
// otherwise --order decides alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/graph/match.h"
#include "src/analysis/graph/model.h"
#include "src/analysis/graph/options.h"
#include "src/dump/communication.h"

namespace msprobe::analysis::graph {

// The nodes at the other ends of communications, as the graph files name them.

// A node at the other end of a communication, as the files tell it.
struct PartnerNode {
  std::string figure;  // its precision, or its level of overflow; "Nan": none
  std::string name;
};

// The other ends of a communication. Of a collective of many ranks they are many, and every rank
// names them: nodes and texts are those of the PartnerFinder.
struct Partners {
  std::string_view kind;                                      // "send", "receive", "send_receive"
  std::vector<std::pair<int64_t, const PartnerNode*>> nodes;  // by rank, rising
};

// The communications of one rank by name of the node; several where one call makes several
// transfers.
using PartnersOfNodes = std::unordered_map<std::string_view, std::vector<Partners>>;

// A call as its rank recorded it. Texts are its own, so that it outlives the rank's dump.
struct CommunicationNode {
  PartnerNode node;
  std::string first_output;     // type, shape and statistics
  std::vector<int64_t> group;   // of a collective; rising, each rank once
  std::optional<int64_t> root;  // of a one-to-many collective
  std::string_view kind;        // of a collective
};

struct RankCommunications {
  dump::RankCommunications calls;        // in the order of the nodes
  std::vector<CommunicationNode> nodes;  // one per call
};

// Whether the Python tool marks the node as one of communication ("is_distributed").
bool IsCommunicationName(std::string_view node_name);

// The calls of one rank. `scores`: by node. With `with_levels` figures are levels of overflow.
Result<RankCommunications> ReadCommunications(int64_t rank, const RankDump& dump,
                                              const Graph& graph,
                                              const std::vector<NodeScore>& scores,
                                              bool with_levels);

// Finds the other ends of communications for one rank after the other: a collective of many ranks
// names all others at each of them. Calls are matched as the Python tool matches them, whose files
// these are (dump::MatchRules::kPythonGraph). By the rules of 8.1.1 a send and its receive must
// also have equal values.
class PartnerFinder {
 public:
  PartnerFinder(std::vector<RankCommunications> ranks, Edition edition);
  PartnerFinder(PartnerFinder&&) = default;
  PartnerFinder& operator=(PartnerFinder&&) = default;

  // Borrows from the finder. Empty for a rank that is not known.
  PartnersOfNodes Of(int64_t rank) const;

 private:
  std::vector<RankCommunications> ranks_;  // by number
  dump::CommunicationMatching matching_;
  Edition edition_ = Edition::kV26;
};

// Numbers of ranks: by group, then place in it. Every rank is in one group of each kind; where a
// kind is not used, alone.
struct RankGroups {
  std::vector<std::vector<int64_t>> pipeline;  // from the first stage on
  std::vector<std::vector<int64_t>> tensor;
  std::vector<std::vector<int64_t>> context;
  // Expert parallelism: ranks that exchange tokens inside of MoE modules have other experts each.
  // Groups of two ranks and more; nothing is merged by them.
  std::vector<std::vector<int64_t>> expert;

  // Whether two ranks of one of these groups have other experts. Not every stage of a pipeline has
  // experts: ask of all groups.
  bool HaveOtherExperts(const std::vector<std::vector<int64_t>>& joined) const;
};

// kUsage when the sizes contradict each other or the number of ranks.
Status CheckParallelism(const Parallelism& sizes, size_t rank_folders);

// Warnings name groups that are not those of the order, and context and expert parallelism that was
// not asked for. `dumps`:
// one per rank, at least one; their SetPlaces is done.
RankGroups FindRankGroups(const std::vector<RankDump>& dumps, const Parallelism& sizes,
                          std::vector<std::string>& warnings);

}  // namespace msprobe::analysis::graph
